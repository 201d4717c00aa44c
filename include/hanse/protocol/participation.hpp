// The participants of each round, and the sampler's feedback: rank 0's side.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/protocol/federated_settings.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/sampling/availability.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// How well the participants of a round were chosen. l(q) = 1/K sum_m a_m/q_m is the part of the
// variance of the gradient estimate that the probabilities q decide.
struct SamplingRecord {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
  int64_t available = 0;           // clients that could be drawn
  double estimate = kNotMeasured;  // of l(q), from the participants
  double variance = kNotMeasured;  // l(q), when the a_m of all clients are known
  double best = kNotMeasured;      // the least l: (sum_m sqrt a_m)^2/K
  double regret = kNotMeasured;    // sum over rounds of l(q) - the least l
};

// Clients whose losses a sampler has asked for.
struct AskedLosses {
  std::vector<int64_t> clients;
  std::vector<double> losses;
};

class Participation : public Stateful {
 public:
  // `turnout` null: all who are drawn take part; else it knows who is there, and `availability` is
  // not asked. REQUIRES: the references and `turnout` outlive the object.
  Participation(ClientSampler& sampler, Availability availability, const Federation& federation,
                FederatedSettings settings, Turnout* turnout = nullptr);

  // Does the next draw need observe_all() with all clients' a_m, [M], first?
  bool needs_all_clients() const { return settings_.regret || sampler_.needs_all_clients(); }
  void observe_all(std::vector<double> a);

  // As ClientSampler's, before draw(): the clients whose losses the round's draw needs first.
  std::vector<int64_t> candidates(int64_t round);
  void take_candidates(std::span<const double> losses);
  // Those of the last round, and their losses.
  const AskedLosses& asked_losses() const { return asked_; }

  // The participants of the round; valid until the next draw. Where the round would end behind the
  // turnout's limit, turnout().late_s says so, all else is as it was before, and no draw may
  // follow. With a limit each round costs a copy of what the sampler and the clock know, O(clients)
  // of memory and time.
  const Draw& draw(int64_t round);
  const Draw& drawn() const { return turnout_.draw; }
  const RoundTurnout& turnout() const { return turnout_; }
  // The participants' shares of all training samples, in the draw's order.
  std::span<const double> shares() const { return shares_; }
  // lambda_m of the objective whose gradient is estimated.
  double importance(int64_t client) const;

  // Takes the participants' reports: a_i and losses in the draw's order.
  void observe(const Feedback& feedback);

  // The record of the last observed round, and its line in sampling.csv.
  const SamplingRecord& record() const { return record_; }
  static constexpr const char* kHeader =
      "round,available,variance_estimate,variance,best_variance,regret";
  std::string line(int64_t round) const;

  // The a_m of all clients, when the sampler asked for them in the round in progress; else empty.
  std::span<const double> a_of_all() const;

  const ClientSampler& sampler() const { return sampler_; }

 private:
  void visit(StateFields& fields) override;
  uint64_t seed() const;
  Draw draw_round(int64_t round);
  DrawnClients dispatch(int64_t call, int64_t n, std::span<const int64_t> changes);
  void keep();
  bool take_back();
  void begin(int64_t round);
  void measure();

  ClientSampler& sampler_;
  Availability availability_;
  const Federation& federation_;
  FederatedSettings settings_;
  Turnout* source_;
  double regret_ = 0;

  // What there was before the round in progress, with a limit of virtual time:
  bool has_kept_ = false;
  State before_;
  RoundTurnout turnout_before_;

  // About the round in progress:
  std::optional<RandomStream> stream_;  // its draw's; none: the draw is behind it
  AskedLosses asked_;
  std::vector<double> a_of_all_;  // [M] a_m; empty: not asked for
  bool sampler_asked_ = false;    // for the sampler, not for the regret alone
  RoundTurnout turnout_;
  std::vector<double> shares_;
  SamplingRecord record_;
};

// The sampler's probabilities of all clients: sampling_entropy (-sum p ln p; ln M when uniform),
// and sampling_min, _p10, _median, _p90 and _max (the ceil(q M)-th smallest). Cost O(M).
Metrics summarize_probabilities(const ClientSampler& sampler);

}  // namespace hanse
