// Options of the samplers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "hanse/base/rule_file.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse {

// Distribution from which each doubled block of OsmdKind::kDoubling starts.
enum class Restart { kLast, kUniform };
constexpr auto choices_of(Restart) { return std::array{"last", "uniform"}; }

enum class OsmdKind { kFixed, kAdaptive, kDoubling };

// How A_max, the bound of every a_m, is known.
enum class BoundSource {
  kGiven,
  kFirstRound,  // the largest a_m of all clients before the first round
  kRunning,     // the largest a_m seen so far
};

// Options of samplers that learn (learning.hpp). The sampler chooses those without a value.
struct LearningOptions {
  OsmdKind kind = OsmdKind::kAdaptive;  // osmd
  Variant variant = Variant::kPaper;    // osmd, mabs, vrb
  bool replacement = true;
  double alpha = 0.4;     // osmd: p_m >= alpha/M; 1: uniform. In (0, 1]
  double rate_scale = 1;  // osmd, mabs: factor on a in the updates, not on A_max
  BoundSource bound = BoundSource::kFirstRound;  // osmd, mabs, vrb
  double a_max = 0;                  // of BoundSource::kGiven: A_max, MABS's A or VRB's L
  int64_t horizon = 0;               // T: rounds; needed where it decides what has no value
  std::optional<double> eta = {};    // osmd, kFixed: the learning rate; none: by `variation`
  double variation = 0;              // osmd, kFixed: total variation of the comparator, >= 0
  std::optional<double> gamma = {};  // osmd: rate of the experts' weights; none: Theorem 8
  Restart restart = Restart::kLast;  // osmd, kDoubling
  // Share of the uniform distribution in p: eta of MABS, theta of VRB. In (0, 1]; 1: uniform.
  // None: 0.4, but (M/T)^(1/3), at most 1, for VRB's paper.
  std::optional<double> mixing = {};
  std::optional<double> rate =
      {};        // mabs: delta >= 0; none: sqrt(eta^4 log M/(T M^5 A)), A as below
  double c = 0;  // avare: C of eq. 20, >= M: the larger, the longer near uniform; 0: M
  // avare: in (0, 1], successive models differ by O(t^-delta). 1 is for steps of SGD that fall with
  // 1/t.
  double delta = 1;
};

// Options of oort (timed.hpp).
struct OortOptions {
  double exploration = 0.9;         // share of draws that explore, before the first round's decay
  double exploration_decay = 0.98;  // its factor in every round
  std::optional<double> exploration_min = {};  // none: 0.2, of the reference 0.3
  double pacer = 30;         // percentile of the durations beyond which clients are penalised
  double pacer_step = 5;     // by which the percentile moves
  int64_t pacer_every = 20;  // rounds between two moves
  double penalty = 2;        // exponent of the preferred duration over the client's
  std::optional<double> clip_quantile = {};  // of the utilities; none: 0.95, of the reference 0.9
  double window = 5;  // draws that explore choose among so many times their number
};

// A job's options.
struct SamplerOptions {
  std::string kind = "uniform";
  int64_t per_round = 10;
  std::string availability = "always";
  std::string a_max = "auto";  // auto | first-round | running | a number
  double mixing = 0;           // 0: that of the sampler's paper
  std::string formula;         // formula
  RuleFile own;                // python, plugin
  OortOptions oort;
  int64_t candidates = 0;  // power-of-choice: d; 0: 2 K
  // The other options; those above replace its own. Uniform draws are without replacement.
  LearningOptions learning = {.replacement = false};
  int64_t seed = 0;  // of the draws and of who is there; 0: run.seed
};

}  // namespace hanse
