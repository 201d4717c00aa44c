// How a federated trainer evaluates its model, and the models that clients have of it.
#include "federated/client_runner.hpp"
#include "federated/measure.hpp"
#include "federated/round_plan.hpp"
#include "federated/server.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

EvaluationTable FederatedTrainer::evaluate() {
  const Federation& federation = parts_.federation;
  const AskedMetrics& asked = settings_.asked;
  const auto chosen = evaluated_clients(federation, asked, completed_);
  const EvaluationRequest request{.clients = evaluation_share(parts_.comm, federation, chosen),
                                  .asked = asked};
  const auto evaluate_row = [&](const auto& row, ClassCounts* counts, SampleTable* samples) {
    const auto model = [&](std::size_t) -> Evaluator& { return runner().evaluator(row); };
    auto found = hanse::evaluate(federation, request, model, counts, samples);
    found.gather(parts_.comm, request.clients);
    return found;
  };
  const auto add_common = [&](const auto& row, const auto& prefix, SampleTable* samples) {
    const auto found = evaluate_common_test(federation, runner().evaluator(row), parts_.comm,
                                            prefix, asked, samples);
    evaluated_.insert(evaluated_.end(), found.begin(), found.end());
  };
  evaluated_.clear();
  samples_ = {};  // two tables at once would take twice the memory
  if (!average_.empty()) {
    runner().receive(average_);  // where the model was
    model_is_shared_ = false;
    const auto found = evaluate_row(average_, nullptr, nullptr);
    if (server_) {
      evaluated_ = summarize_tests("averaged_", trained_clients(found, federation),
                                   federation.classes(), asked);
    }
    add_common(average_, "averaged_", nullptr);
  }
  share_model();
  add_common(theta_, "", &samples_);
  ClassCounts counts(federation.classes(), asked);
  const bool views = settings_.own_models || parts_.tuner != nullptr;
  auto clients =
      views ? evaluate_viewed_models(parts_, settings_, context(), chosen, counts, samples_)
            : evaluate_row(theta_, &counts, &samples_);
  keep(asked, counts, parts_.comm);
  runner().bring_shown();
  if (!server_) return clients;
  clients.mark_participants(server_->drawn());
  for (const RoundPart* part : acting_) {
    for (const auto& metric : part->evaluated(clients)) evaluated_.push_back(metric);
  }
  return clients;
}

Metrics FederatedTrainer::metrics() const {
  Metrics metrics = evaluated_;
  for (const auto& metric : server_->metrics()) metrics.push_back(metric);
  return metrics;
}

}  // namespace hanse
