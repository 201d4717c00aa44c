// The one place where what participants report becomes what their updates count.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "federated/client_runner.hpp"
#include "federated/column_stepping.hpp"
#include "federated/findings.hpp"
#include "federated/known_round.hpp"
#include "federated/round_plan.hpp"
#include "federated/server.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/attackers.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// A round tells it what is known, in the order of its methods; the rule weighs as soon as it has
// what it needs, and then the parts. What went wrong is in the round's failure.
class Weighing {
 public:
  // All must outlive it. `server` null: not rank 0. `attackers` null: all are honest.
  struct Parts {
    Communicator& comm;
    const AggregatorNeeds& needs;
    const ParameterLayout& layout;
    RoundPlan& plan;
    ClientRunner& runner;
    Server* server;
    const Attackers* attackers;
    ColumnStepping* columns;  // null: the rule needs none
    const std::vector<RoundPart*>& acting;
  };
  explicit Weighing(const Parts& parts);

  // Rank 0: the plan has the draw's participants.
  void drawn(int64_t round);
  // The losses at the received model, on rank 0 in the draw's order. Collective.
  void measured(std::vector<double> losses, const RoundContext& round);
  // Takes the ranks' findings of the training: rates or distances, norms and inner products go to
  // rank 0, coefficients come back, and the sink combines what it kept; or the ranks step by
  // columns. Where an update is missing, since a client failed, the sink drops them all, as the
  // round is dropped. Parts may change the findings. Collective. REQUIRES: the sink keeps updates.
  void trained(Findings& findings, const RoundContext& round);

  // Rank 0: is there a step? Not where a rule that rejects updates gives none of them a weight.
  bool has_step() const { return has_step_; }

 private:
  RoundRoles roles_of(std::span<const double> norms, int64_t round) const;
  void weigh_before(int64_t round);
  std::optional<KnownRound> gather(Findings& findings, const RoundContext& round);
  void combine(const KnownRound& known, std::vector<double> coefficients);
  void note(const KnownRound& known, std::span<const double> coefficients);
  void tell_parts(const WeighedRound& weighed) const;

  Parts parts_;
  std::size_t layers_;
  bool has_step_ = true;
};

}  // namespace hanse
