// The end of a round: the rules learn what happened, the sums come to rank 0, the server steps.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "findings.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/protocol/federated.hpp"

namespace hanse {

bool step_overlaps(const AggregatorNeeds& needs, const LocalUpdate& update) {
  return needs.trials == 0 && !update.tells_update();
}

// a_i = lambda_i^2 |g_i|^2 from |theta_i - theta|^2.
double FederatedTrainer::feedback(int64_t client, double importance, double squared_norm) const {
  const int64_t samples = parts_.federation.train(client).size();
  const double scale = parts_.update.tells_update()  // |g_i|^2 itself
                           ? 1
                           : feedback_scale(settings_.client, completed_ + 1, samples);
  return importance * importance * squared_norm * scale;
}

// Of the control variates' changes, beside the updates.
void FederatedTrainer::reduce_controls() {
  const PhaseTimer timer(traffic_.times.reduce_s);
  const int64_t before = parts_.comm.bytes_moved();
  control_sum_.reduce(parts_.comm, 0);
  traffic_.reduce_bytes += parts_.comm.bytes_moved() - before;
}

// The updates' sum to rank 0, where the server steps unless the round has failed. Returns the time
// of communication.
double FederatedTrainer::combine(const Findings& findings, RoundRecord& record) {
  ServerStep step;
  if (is_server() && !record.failed) step = prepare_step(findings, record);
  const auto step_part = [&](int64_t begin, int64_t end) {
    if (step.is_due) this->step_part(step, begin, end);
  };
  const auto n = static_cast<int64_t>(theta_.size());
  ExchangeTimes times;
  if (overlaps_) {
    times = sum_.exchange(parts_.comm, theta_, step_part);
    traffic_.broadcast_bytes += element_bytes(ElementType::kFloat) * n * (parts_.comm.size() - 1);
  } else {
    const PhaseTimer timer(times.reduce_s);
    reduce_sum();
  }
  if (!overlaps_ && is_server()) {
    const PhaseTimer timer(times.step_s);
    step_part(0, n);
  }
  model_is_shared_ = overlaps_;
  traffic_.reduce_bytes += sum_.bytes() * (parts_.comm.size() - 1);
  traffic_.add(times);
  byte_s_ = (times.reduce_s + times.broadcast_s) / static_cast<double>(sum_.bytes());
  if (!step.is_due) {
    sum_.clear();
    control_sum_.clear();
  }
  return times.reduce_s + times.broadcast_s;
}

// Rank 0: the rules learn what happened. Losses and norms are summed in the draw's order: the
// plan's depends on measured times.
FederatedTrainer::ServerStep FederatedTrainer::prepare_step(const Findings& findings,
                                                            RoundRecord& record) {
  std::vector<double> losses(plan_.size());
  std::vector<double> squared_norms(plan_.size());
  std::vector<double> a(plan_.size());
  std::vector<double> coefficients(plan_.size());
  std::vector<Measurement> measured;
  double loss = 0;
  left_out_ = 0;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const Assignment& entry = plan_[i];
    const auto position = static_cast<std::size_t>(entry.position);
    losses[position] = findings.of(i, Findings::kLoss);
    squared_norms[position] = findings.of(i, Findings::kSquaredNorm);
    coefficients[position] = entry.coefficient;
    a[position] = feedback(entry.client, entry.importance, squared_norms[position]);
    if (losses[position] == kUnknown) {  // time was up
      losses[position] = squared_norms[position] = a[position] = std::nan("");
      ++left_out_;
      continue;
    }
    const int64_t samples = parts_.federation.train(entry.client).size();
    measured.push_back({.client = entry.client,
                        .units = static_cast<double>(local_steps(settings_.client, samples)),
                        .seconds = findings.of(i, Findings::kSeconds),
                        .worker = entry.worker});
  }
  costs_.observe(measured);
  for (const double one : losses) loss += std::isnan(one) ? 0 : one;
  record.loss = loss / static_cast<double>(static_cast<int64_t>(losses.size()) - left_out_);
  if (settings_.trace) {
    trace_.a = a;
    trace_.batch_losses = losses;
    trace_.squared_norms = squared_norms;
    trace_.losses = losses_;
    describe_draw();
  }
  participation_->observe({.a = a, .losses = losses});
  sampling_lines_ += participation_->line(completed_ + 1);
  if (plan_.empty()) return {};
  move_controls();
  return {.is_due = true,
          .scale = parts_.aggregator.scale(squared_norms),
          .rate = server_rate(settings_.server, completed_ + 1),
          .coefficients = std::accumulate(coefficients.begin(), coefficients.end(), 0.0)};
}

// Rank 0, when the sum of the control variates' changes is there.
void FederatedTrainer::move_controls() {
  control_sum_.take(control_change_);
  if (control_.empty()) parts_.optimizer->observe(control_change_);
  for (std::size_t i = 0; i < control_.size(); ++i) control_[i] += control_change_[i];
  std::fill(control_change_.begin(), control_change_.end(), 0.0F);
}

// Rank 0: the entries [begin, end) of the model, whose sum is there.
void FederatedTrainer::step_part(const ServerStep& how, int64_t begin, int64_t end) {
  const auto first = static_cast<std::size_t>(begin);
  const auto update = std::span(step_).subspan(first, static_cast<std::size_t>(end - begin));
  const auto theta = std::span(theta_).subspan(first, update.size());
  const auto trained =
      static_cast<std::size_t>(std::clamp(n_trainable(), begin, end) - begin);  // not buffers
  sum_.take(update, begin);
  if (how.scale != 1) {
    for (float& value : update.first(trained)) value *= static_cast<float>(how.scale);
  }
  parts_.optimizer->step(theta.first(trained), update.first(trained), how.rate, begin);
  average_buffers(theta.subspan(trained), update.subspan(trained), how.coefficients);
}

}  // namespace hanse
