// The one place where what participants report becomes what their updates count.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "federated/client_runner.hpp"
#include "federated/findings.hpp"
#include "federated/forging.hpp"
#include "federated/round_plan.hpp"
#include "federated/server.hpp"
#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/attackers.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"
#include "hanse/rules/aggregation/robustness.hpp"
#include "hanse/sums/column_exchange.hpp"

namespace hanse {

// A round tells it what is known, in the order of its methods; the rule weighs as soon as it has
// what it needs. What went wrong is in the round's failure. Its state is rank 0's.
class Weighing final : public Stateful {
 public:
  // All must outlive it. `server` null: not rank 0. `attackers` null: all are honest.
  struct Parts {
    Communicator& comm;
    const AggregatorNeeds& needs;
    const ParameterLayout& layout;
    const FederatedSettings& settings;
    RoundPlan& plan;
    ClientRunner& runner;
    Server* server;
    Attackers* attackers;
    ServerUpdate* root;           // makes ExtraRow::kServer, on rank 0; or null
    ColumnFunction* own_columns;  // makes ColumnKind::kOwn, on every rank; or null
  };
  explicit Weighing(const Parts& parts);

  // Rank 0: the plan has the draw's participants.
  void drawn(int64_t round);
  // The losses at the received model, on rank 0 in the draw's order. Collective.
  void measured(std::vector<double> losses, const RoundContext& round);
  // Takes the ranks' findings of the training: rates or distances, norms and inner products go to
  // rank 0, coefficients come back, and the sink combines what it kept; or the ranks step by
  // columns. Where an update is missing, since a client failed, the sink drops them all, as the
  // round is dropped. The findings of forged updates become those of what is sent. Collective.
  void trained(Findings& findings, const RoundContext& round);

  // Rank 0: is there a step? Not where a rule that rejects updates gives none of them a weight.
  bool has_step() const { return has_step_; }
  // Rank 0: takes a part of the mixed update, by which the server steps.
  void note_step(int64_t begin, std::span<const float> update);
  // Rank 0: adds what it measures of robust rules, and of rules among attackers.
  void add_columns(Columns& columns) const;

 private:
  // What the ranks know of the participants, in the draw's order.
  struct Known {
    std::vector<double> statistics, norms;
    std::size_t updates = 0;  // with those of absent clients
    RoundRoles roles;
    std::vector<double> gram = {};  // rank 0: as the rule sees it
  };
  // A step by columns on its way to all ranks.
  struct ColumnStep {
    ColumnMix mix;
    std::vector<int64_t> honest;
    std::vector<double> shares;
  };

  void visit(StateFields& fields) override;
  RoundRoles roles_of(std::span<const double> norms, int64_t round) const;
  void weigh_before(int64_t round);
  void bring_own_row(UpdateSink& sink, std::size_t position, const RoundContext& round);
  void forge(Known& known, Findings& findings, const RoundContext& round);
  double displacement(const std::vector<double>& row, std::span<const double> gram, Known known,
                      const RoundContext& round);
  void serve_trials(const RoundContext& round);
  int64_t sender_of(int64_t position, const Known& known) const;
  void combine(const Known& known, const RoundContext& round);
  void combine_columns(ColumnStep step, std::size_t rows, const Known& known,
                       const RoundContext& round);
  ColumnDeviations mix_columns(ColumnStep& step, int64_t rows, const RoundContext& round,
                               const WriteColumns& write, LargestEntry* largest);
  OwnStep own_step(const ColumnStep& step, const RoundContext& round);
  ColumnStep column_step(const ColumnMix& mix, const Known& known) const;
  void measure(std::span<const double> coefficients, const Known& known);
  void measure_weights(std::span<const double> coefficients, const RoundRoles& roles);

  Parts parts_;
  std::size_t layers_;
  std::optional<Forging> forging_;  // where attackers may forge
  bool forges_ = false;             // in this round
  std::optional<RowExchange> columns_;
  // [P] on rank 0, where they are needed: the server's own update, and the last aggregate.
  std::vector<float> server_row_, last_step_;
  bool has_step_ = true;
  Robustness robustness_;  // of the round; NaN: not known
};

}  // namespace hanse
