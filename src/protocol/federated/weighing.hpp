// The one place where what participants report becomes what their updates count.
#pragma once

#include <cstddef>
#include <vector>

#include "federated/client_runner.hpp"
#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "federated/server.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// A round tells it what is known, in the order of its methods; the rule weighs as soon as it has
// what it needs. What went wrong is in the round's failure.
class Weighing {
 public:
  // `server` null: not rank 0. `layers`: parts of a row that the rule weighs apart. All must
  // outlive it.
  Weighing(Communicator& comm, const AggregatorNeeds& needs, std::size_t layers, RoundPlan& plan,
           ClientRunner& runner, Server* server)
      : comm_(comm),
        needs_(needs),
        layers_(layers),
        plan_(plan),
        runner_(runner),
        server_(server) {}

  // Rank 0: the plan has the draw's participants.
  void drawn();
  // The losses at the received model, on rank 0 in the draw's order. Collective.
  void measured(std::vector<double> losses, const RoundContext& round);
  // Takes the ranks' findings of the training: rates or distances, norms and inner products go to
  // rank 0, coefficients come back, and the sink combines what it kept. Where an update is missing,
  // since a client failed, the sink drops them all, as the round is dropped. Collective.
  void trained(const Findings& findings, const RoundContext& round);

 private:
  void combine(const Weighable& found, std::size_t updates, const RoundContext& round);

  Communicator& comm_;
  const AggregatorNeeds& needs_;
  std::size_t layers_;
  RoundPlan& plan_;
  ClientRunner& runner_;
  Server* server_;
};

}  // namespace hanse
