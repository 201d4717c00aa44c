#include "federated/device_engine/cohort_sink.hpp"

#include "hanse/base/scope.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

CohortSink::CohortSink(const RunnerParts& parts, const FederatedSettings& settings,
                       CohortTraining& cohorts, ModelOnDevice& model, DeviceCommunicator& devices)
    : UpdateSink(parts.update.control_width(), settings),
      comm_(parts.comm),
      cohorts_(cohorts),
      model_(model),
      devices_(devices),
      trained_(parts.model.layout().n_trainable()) {
  const int64_t n_params = parts.model.n_params();
  const Reduction reduction = reduction_of(settings);
  const auto value_bytes = reduction == Reduction::kExact ? sizeof(int64_t) : sizeof(float);
  sum_bytes_ = n_params * static_cast<int64_t>(value_bytes);
  sum_ = torch_library().make_device_sum(n_params, settings.max_participants, reduction,
                                         cohorts.device());
  server_ = torch_library().make_device_server(comm_, devices_, n_params, cohorts.device());
  if (comm_.rank() == 0) step_.resize(static_cast<std::size_t>(n_params));
  if (parts.rule.after_training()) {
    kept_ = torch_library().make_device_updates(comm_, devices_,
                                                row_parts(parts.model.layout(), parts.rule.layers),
                                                trained_, cohorts.device());
  }
}

std::vector<FoldResult> CohortSink::fold(const at::Tensor& origin,
                                         std::span<const double> coefficients,
                                         std::span<double> losses) {
  return sum_->fold_model(cohorts_.cohort().rows(), origin, coefficients, trained_,
                          losses_to(losses));
}

std::vector<FoldResult> CohortSink::take(const at::Tensor& origin,
                                         std::span<const double> coefficients,
                                         std::span<const int64_t> positions,
                                         std::span<double> losses) {
  if (!kept_) return fold(origin, coefficients, losses);
  return kept_->keep(cohorts_.cohort().rows(), origin, positions, losses_to(losses));
}

// Adds zeros to the sum.
std::vector<FoldResult> CohortSink::measure(const at::Tensor& origin, std::size_t rows,
                                            std::span<double> losses) {
  return fold(origin, std::vector<double>(rows), losses);
}

ExchangeReport CohortSink::hand_over(std::span<float> model, const SumStep& step) {
  ExchangeReport done{.sum_bytes = sum_bytes_};
  done.shares_model = step_on_devices(model, step, done.times.reduce_s);
  if (done.shares_model) return done;
  {
    const Scope timer(done.times.reduce_s);
    sum_->reduce(devices_, 0);
    if (step.part) {
      sum_->take(step_);
    } else {
      sum_->clear();
    }
  }
  const Scope timer(done.times.step_s);
  model_.bring();
  if (step.part) step.part(0, step_);
  return done;
}

// Does nothing unless rank 0's step acts on each entry alone. Otherwise all ranks get the new
// model, on their devices; `model` has it behind ModelOnDevice::bring().
bool CohortSink::step_on_devices(std::span<float> model, const SumStep& step, double& seconds) {
  struct {
    int64_t is_by_entry;
    EntryStep step;
  } message{step.by_entry.has_value(), step.by_entry.value_or(EntryStep())};
  comm_.bcast(std::as_writable_bytes(std::span(&message, 1)), 0);
  if (!message.is_by_entry) return false;
  const Scope timer(seconds);
  model_.at(model);
  server_->step(message.step, step.states, *sum_, cohorts_.cohort().theta());
  model_.has_received(model, /*by_step=*/true);
  return true;
}

}  // namespace hanse
