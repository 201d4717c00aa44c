// Options of the aggregator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hanse/base/rule_file.hpp"
#include "hanse/rules/aggregation/options.hpp"
#include "hanse/rules/aggregation/pre_rules.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse {

// aggregator.byzantine: "auto", a whole number of a round's participants, or a share below 0.5.
struct ByzantineCount {
  std::optional<double> number;  // none: auto

  // Throws InvalidArgument.
  static ByzantineCount parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
  // f of k participants; a share of them is rounded up. auto: `attack_share`, that of the clients
  // that attack.
  int64_t of(int64_t k, double attack_share) const;
};

struct AggregatorOptions {
  std::string kind = "fedavg";
  ClientWeights weights = ClientWeights::kSamples;  // fedavg, propfair, qfedavg, term, fedmgda+
  double cap = 0;         // capped: n_i from which a client counts fully; 0: none is given
  double capped_sum = 0;  // capped: of all clients' min(n_i / cap, 1), found with the data; no key
  Estimator estimator = Estimator::kNormalized;
  std::string loss = "full";          // full | batches(n): samples of the losses a rule needs
  Variant variant = Variant::kPaper;  // aaggff-d: corrected, where a job file does not say
  Cdf cdf = Cdf::kNormal;             // aaggff: response transform
  double c1 = 0;
  double c2 = 0;           // 0: 1/K (aaggff-s), the participation (aaggff-d)
  double alpha = 0;        // aaggff-s; 0: 4 K L
  double beta = 0;         // aaggff-s, 0: 1/(4 L); fedheal
  double rate = 0.01;      // afl
  double q = 1;            // qfedavg
  double lipschitz = 0;    // qfedavg, 0: 1 / client.lr; aaggff-d, 0: the lemma's
  double temperature = 1;  // term
  double tail = 0.5;       // superquantile
  double base = 2;         // propfair: M
  double epsilon = 0.1;    // fedmgda+
  double radius = 0;       // dqn-fed: longest step; 0: no limit; centered-clipping
  int64_t backtrack = 0;   // dqn-fed: halvings of the step; 0: off
  AbsentClients absent = AbsentClients::kNone;  // fedlf
  double threshold = 0.3;                       // fedheal: tau
  ByzantineCount byzantine;                     // robust rules: f
  int64_t keep = 0;                             // multi-krum; 0: the participants but f
  int64_t iterations = 3;                       // geometric-median, centered-clipping
  double smoothing = 0.1;                       // geometric-median
  int64_t pivot = 0;                            // monna: the client that is trusted
  int64_t root = 0;                             // fltrust: of the clients kept out of training
  PreRules before;                              // robust rules, fedavg
  Shortfall shortfall = Shortfall::kError;      // robust rules, fedavg
  std::string formula;                          // formula
  RuleFile own;                                 // python, plugin
};

// n of "batches(n)", 0 of "full". Throws InvalidArgument for anything else.
int64_t loss_batches(const std::string& text);

}  // namespace hanse
