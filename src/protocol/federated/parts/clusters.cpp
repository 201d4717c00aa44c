#include "hanse/protocol/clusters.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/findings.hpp"
#include "federated/measure.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/evaluation/evaluation_table.hpp"

namespace hanse {

namespace {

constexpr int64_t kNobodys = -1;
constexpr int64_t kColumns = 20;

class ClusterRounds final : public RoundPart {
 public:
  explicit ClusterRounds(const ClustersCase& of)
      : of_(of),
        places_(of.model.places()),
        on_{of.federation, of.update.steps().work(), of.loss_batches, of.seed},
        evaluator_(of.federation, of.model.plain()),
        weights_(to_index(places_.copies())),
        last_(to_index(of.federation.clients()), kNobodys) {
    std::ranges::copy(of.update.fixed(), last_.begin());
  }

  void shared(const SharedRound& round) override {
    const RoundPlan& plan = round.context.plan;
    plan_ = &plan;
    taken_.assign(plan.size(), kNobodys);
    if (of_.update.fixed().empty()) {
      choose(round);
    } else {
      for (const Assignment& entry : plan.entries()) {
        taken_[to_index(entry.position)] = of_.update.fixed()[to_index(entry.client)];
      }
    }
    for (const Assignment& entry : plan.entries()) {
      const int64_t copy = taken_[to_index(entry.position)];
      last_[to_index(entry.client)] = copy;
      if (entry.worker != plan.worker()) continue;
      attempt(round.context.failure,
              [&] { of_.update.take_copy(round.states->row(entry.client), copy); });
    }
  }

  // The rule's coefficients are in the plan.
  void opens(int64_t, UpdateSum&) override {
    std::vector<double> coefficients(taken_.size());
    for (const Assignment& entry : plan_->entries()) {
      coefficients[to_index(entry.position)] = entry.coefficient;
    }
    std::ranges::fill(weights_, 0.0);
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      weights_[to_index(taken_[i])] += coefficients[i];
    }
    still_.clear();
    for (int64_t copy = 0; copy < places_.copies(); ++copy) {
      if (weights_[to_index(copy)] != 0) continue;
      const auto parts = places_.parts_of(copy);
      still_.insert(still_.end(), parts.begin(), parts.end());
    }
  }

  bool takes_updates() const override { return true; }

  std::vector<WeighedPart> parts_of(const SummedUpdate& one) override {
    const int64_t copy = taken_[to_index(one.place)];
    const double all = weights_[to_index(copy)];
    std::vector<WeighedPart> parts;
    for (const RowPart& part : places_.shared()) parts.push_back({part, one.coefficient});
    for (const RowPart& part : places_.parts_of(copy)) {
      parts.push_back({part, all != 0 ? one.coefficient / all : 0});
    }
    if (places_.buffers().size() > 0) parts.push_back({places_.buffers(), one.coefficient});
    return parts;
  }

  std::span<const RowPart> still() const override { return still_; }

  // The accuracy of the worst copy, a mean over the clients that took it last.
  Metrics evaluated(const EvaluationTable& clients) const override {
    std::vector<double> sums(weights_.size()), counts(weights_.size());
    for (const ClientEvaluation& client : clients) {
      const bool is_known = client.client < std::ssize(last_) && client.samples > 0;
      const int64_t copy = is_known ? last_[to_index(client.client)] : kNobodys;
      if (copy == kNobodys) continue;
      sums[to_index(copy)] += client.accuracy;
      counts[to_index(copy)] += 1;
    }
    double worst = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t copy = 0; copy < sums.size(); ++copy) {
      if (counts[copy] > 0) worst = std::fmin(worst, sums[copy] / counts[copy]);
    }
    return {{"cluster_accuracy_worst", worst}};
  }

  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] {
      Metrics numbers;
      for (int64_t copy = 0; copy < std::min(kColumns, places_.copies()); ++copy) {
        numbers.emplace_back(fmt::format("cluster_{}", copy),
                             static_cast<double>(std::ranges::count(taken_, copy)));
      }
      return numbers;
    });
    columns.add_to_clients([this](int64_t client) {
      const int64_t copy = client < std::ssize(last_) ? last_[to_index(client)] : kNobodys;
      return Metrics{{"cluster", copy == kNobodys ? std::numeric_limits<double>::quiet_NaN()
                                                  : static_cast<double>(copy)}};
    });
    columns.add_to_summary([this] {
      std::set<int64_t> used(last_.begin(), last_.end());
      used.erase(kNobodys);
      return Metrics{{"clusters_used", static_cast<double>(used.size())}};
    });
  }

  const char* name() const override { return "clusters"; }

 private:
  // Fills in what every participant takes, on all ranks.
  void choose(const SharedRound& round) {
    const Scope phase(Phase::kLosses, round.losses_s, of_.comm.seconds());
    const RoundContext& context = round.context;
    const bool all_equal = places_.all_equal(context.model);
    for (const Assignment& entry : context.plan.entries()) {
      if (entry.worker != context.plan.worker()) continue;
      int64_t& copy = taken_[to_index(entry.position)];
      copy = 0;  // stands in after a failure; the round is dropped then
      attempt(context.failure, [&] {
        copy = all_equal ? any_copy(context.number, entry.client) : best_copy(round, entry.client);
      });
    }
    of_.comm.allreduce(std::span(taken_), ReduceOp::kMax);
  }

  int64_t any_copy(int64_t round, int64_t client) const {
    RandomStream stream(of_.seed, Purpose::kCopies, static_cast<uint64_t>(round),
                        static_cast<uint64_t>(client));
    return stream.below(places_.copies());
  }

  int64_t best_copy(const SharedRound& round, int64_t client) {
    if (of_.federation.train(client).size() == 0) return 0;
    const std::span<const float> state = round.states->row(client);
    const auto own = state.first(to_index(of_.update.state_width()));
    return of_.update.best_copy(round.context.model, own, [&](std::span<const float> plain) {
      return training_loss(on_, round.context.number, client, evaluator_.at(plain));
    });
  }

  void visit(StateFields& fields) override { fields.fixed("last", last_); }

  ClustersCase of_;
  const CopyPlaces& places_;
  LossSamples on_;
  RowEvaluator evaluator_;
  std::vector<double> weights_;  // [k] C_a
  std::vector<int64_t> last_;    // [M] the copy that each client took last
  // The round in progress:
  const RoundPlan* plan_ = nullptr;
  std::vector<int64_t> taken_;  // [K] a_i, in the draw's order
  std::vector<RowPart> still_;
};

}  // namespace

std::unique_ptr<RoundPart> make_clusters(const ClustersCase& of) {
  return std::make_unique<ClusterRounds>(of);
}

}  // namespace hanse
