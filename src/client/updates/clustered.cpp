#include "hanse/client/clustered.hpp"

#include <limits>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// Behind inner's state: the copy that the client took last, and 1 once it has taken one.
constexpr const char* kCopy = "cluster";
constexpr const char* kKnown = "has a cluster";

std::vector<StateBlock> blocks_around(const LocalUpdate& inner) {
  std::vector<StateBlock> blocks = inner.state_blocks();
  blocks.push_back({kCopy, 1});
  blocks.push_back({kKnown, 1});
  return blocks;
}

}  // namespace

ClusteredUpdate::ClusteredUpdate(std::unique_ptr<LocalUpdate> inner, const Federation& federation,
                                 ClusteredModel& model, std::vector<int64_t> fixed)
    : LocalUpdate(blocks_around(*inner), inner->steps()),
      inner_(std::move(inner)),
      federation_(federation),
      model_(model),
      fixed_(std::move(fixed)),
      plain_(to_index(model.places().plain_size())) {}

int64_t ClusteredUpdate::received_values(int64_t row) const {
  return fixed_.empty() ? row : own_values(row);
}

int64_t ClusteredUpdate::own_values(int64_t row) const {
  return row - (model_.places().wide_size() - model_.places().plain_size());
}

int64_t ClusteredUpdate::sent_values(int64_t round, int64_t client, const ParameterLayout&) const {
  return inner_->sent_values(round, client, model_.plain().layout());
}

void ClusteredUpdate::take_copy(std::span<float> state, int64_t copy) const {
  block(state, kCopy).front() = static_cast<float>(copy);
  block(state, kKnown).front() = 1;
}

void ClusteredUpdate::start(std::span<const float> wide, int64_t copy, std::span<const float> state,
                            std::span<float> plain) const {
  model_.places().take(wide, copy, plain);
  if (!state.empty()) inner_->receive(state.first(to_index(inner_->state_width())), plain);
}

std::optional<int64_t> ClusteredUpdate::copy_of(std::span<const float> state) const {
  if (state.empty() || block(state, kKnown).front() == 0) return std::nullopt;
  return static_cast<int64_t>(block(state, kCopy).front());
}

int64_t ClusteredUpdate::chosen(const ClientTask& task) {
  if (const auto copy = copy_of(task.state)) return *copy;
  if (task.client < std::ssize(fixed_)) return fixed_[to_index(task.client)];
  const SampleRange samples = federation_.train(task.client);
  if (samples.size() == 0) return 0;
  RowEvaluator evaluator(federation_, model_.plain());
  return best_copy(task.row, task.state, [&](std::span<const float> plain) {
    return evaluator.at(plain).range(samples).loss;
  });
}

int64_t ClusteredUpdate::best_copy(
    std::span<const float> wide, std::span<const float> state,
    const std::function<double(std::span<const float> plain)>& loss) {
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 0;
  for (int64_t copy = 0; copy < model_.places().copies(); ++copy) {
    start(wide, copy, state, plain_);
    const double found = loss(plain_);
    if (!(found < least)) continue;
    least = found;
    best = copy;
  }
  return best;
}

ClientTask ClusteredUpdate::inner_task(ClientTask task) {
  task.row = plain_;
  task.state = task.state.first(to_index(inner_->state_width()));
  return task;
}

ClientOutcome ClusteredUpdate::train(const ClientTask& task) {
  const int64_t copy = chosen(task);
  take_copy(task.state, copy);
  model_.places().take(task.row, copy, plain_);
  const ClientOutcome outcome = inner_->train(inner_task(task));
  model_.places().put(plain_, copy, task.row);
  return outcome;
}

void ClusteredUpdate::receive(std::span<const float> state, std::span<float> row) const {
  std::vector<float> plain(plain_.size());
  start(row, copy_of(state).value_or(0), state, plain);
  model_.places().put(plain, 0, row);
}

void ClusteredUpdate::own_model(const ClientTask& task) {
  model_.places().take(task.row, chosen(task), plain_);
  if (inner_->keeps_own_model()) inner_->own_model(inner_task(task));
  model_.places().put(plain_, 0, task.row);
}

}  // namespace hanse
