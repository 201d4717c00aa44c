#include "networks/scripts/script_objective.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "client.objective";

constexpr std::array<const char*, ScriptLoss::kArguments> kNames = {  // by Argument
    "logits", "labels", "sample_weights", "row", "received_row", "received_logits"};

ScriptLoss::Argument argument_called(const std::string& name, const std::string& path) {
  const auto found = std::ranges::find(kNames, name);
  if (found != kNames.end()) return static_cast<ScriptLoss::Argument>(found - kNames.begin());
  throw InvalidArgument(fmt::format("forward has the argument {}", name), path,
                        "known: " + fmt::format("{}", fmt::join(kNames, ", ")));
}

at::Tensor checked(const torch::jit::IValue& output) {
  if (!output.isTensor()) throw std::runtime_error("it returns " + output.tagKind());
  const at::Tensor loss = output.toTensor();
  if (loss.numel() != 1 || loss.scalar_type() != at::kFloat) {
    throw std::runtime_error(fmt::format("it returns {} values of type {}, not one Float",
                                         loss.numel(), c10::toString(loss.scalar_type())));
  }
  if (!loss.requires_grad()) throw std::runtime_error("it depends on neither logits nor row");
  return loss;
}

// Moves all tensors of a module. Module::to() takes no device that is none of LibTorch's own.
void move_to(const torch::jit::Module& module, const at::Device& device) {
  if (device.is_cpu()) return;
  for (const torch::jit::Module& one : module.modules()) {
    for (std::size_t i = 0; i < one._ivalue()->slots().size(); ++i) {
      const torch::jit::IValue value = one._ivalue()->getSlot(i);
      if (value.isTensor()) one._ivalue()->setSlot(i, value.toTensor().to(device));
    }
  }
}

class ScriptObjective final : public Objective {
 public:
  explicit ScriptObjective(const ObjectiveCase& c) : loss_(c, at::kCPU) {
    if (loss_.names(ScriptLoss::kRow)) row_gradient_.resize(to_index(c.n_trainable));
  }

  ObjectiveNeeds needs() const override {
    return {.received_row = loss_.names(ScriptLoss::kReceivedRow),
            .received_logits = loss_.names(ScriptLoss::kReceivedLogits)};
  }
  std::span<const float> row_gradient() const override { return row_gradient_; }

  double loss_and_delta(const ObjectiveStep& step, RandomStream& noise, float* logits) override {
    const int64_t rows = step.batch.rows, outputs = loss_.of().outputs, n = loss_.of().n_trainable;
    ScriptLoss::Given given;
    given[ScriptLoss::kLogits] = view(logits, {rows, outputs}).clone();
    given[ScriptLoss::kLabels] = labels(step.batch);
    given[ScriptLoss::kSampleWeights] = weights(step.batch);
    given[ScriptLoss::kRow] = view(step.row.data(), {n});
    if (needs().received_row) given[ScriptLoss::kReceivedRow] = view(step.received.data(), {n});
    if (needs().received_logits) {
      given[ScriptLoss::kReceivedLogits] = view(step.received_logits, {rows, outputs});
    }
    std::vector<at::Tensor> by;
    std::vector<float*> to;
    for (const auto& [argument, room] :
         {std::pair(ScriptLoss::kLogits, logits), {ScriptLoss::kRow, row_gradient_.data()}}) {
      if (!loss_.names(argument)) continue;
      by.push_back(given[argument].requires_grad_());
      to.push_back(room);
    }
    const ScriptLoss::Found found = loss_.differentiate(given, by, noise.next());
    if (!loss_.names(ScriptLoss::kLogits)) std::fill_n(logits, rows * outputs, 0.0F);
    for (std::size_t i = 0; i < by.size(); ++i) {
      const at::Tensor gradient = found.gradients[i].contiguous();
      std::copy_n(gradient.data_ptr<float>(), gradient.numel(), to[i]);
    }
    return found.loss.item<double>();
  }

 private:
  static at::Tensor view(const float* values, at::IntArrayRef shape) {
    return at::from_blob(const_cast<float*>(values), shape, at::kFloat);  // which knows no const
  }

  at::Tensor labels(const Batch& batch) const {
    const LabelForm& form = loss_.of().labels;
    const int64_t values = batch.rows * form.values;
    return loss_.labels(form.classes == 0
                            ? view(batch.targets, {values})
                            : at::from_blob(const_cast<int32_t*>(batch.labels), {values}, at::kInt),
                        batch.rows);
  }

  static at::Tensor weights(const Batch& batch) {
    at::Tensor ones = at::ones({batch.rows});
    float* to = ones.data_ptr<float>();
    for (int64_t r = 0; batch.class_weights != nullptr && r < batch.rows; ++r) {
      to[r] = batch.class_weights[batch.labels[r]];
    }
    return ones;
  }

  ScriptLoss loss_;
  std::vector<float> row_gradient_;  // [trainable] when it has the row among its arguments
};

}  // namespace

ScriptLoss::ScriptLoss(ObjectiveCase c, const at::Device& device)
    : case_(std::move(c)),
      device_(device),
      module_(read_script(case_.path, kKey, "scripts/export-objective writes one")) {
  find_arguments();
  move_to(module_, device_);
  module_.train();
  try_out();
}

bool ScriptLoss::names(Argument argument) const {
  return std::ranges::find(arguments_, argument) != arguments_.end();
}

void ScriptLoss::find_arguments() {
  const auto method = module_.find_method("forward");
  if (!method) throw InvalidArgument("the module has no forward", case_.path);
  const auto& schema = method->function().getSchema().arguments();
  for (std::size_t i = 1; i < schema.size(); ++i) {  // behind self
    arguments_.push_back(argument_called(schema[i].name(), case_.path));
  }
  if (names(kLogits) || names(kRow)) return;
  throw InvalidArgument("forward has neither logits nor row among its arguments", case_.path,
                        "there is nothing to train by");
}

at::Tensor ScriptLoss::labels(const at::Tensor& own, int64_t rows) const {
  std::vector<int64_t> shape = {rows};
  if (case_.labels.values > 1 || case_.labels.multi_label) shape.push_back(case_.labels.values);
  return case_.labels.classes == 0 ? own.view(shape) : own.view(shape).to(at::kLong);
}

ScriptLoss::Found ScriptLoss::differentiate(const Given& given, const std::vector<at::Tensor>& by,
                                            uint64_t seed) {
  try {
    return run(given, by, seed);
  } catch (const std::exception& error) {
    throw Error(fmt::format("the objective fails on a batch of {}: {}", given[kLabels].size(0),
                            one_line(error)),
                case_.path);
  }
}

ScriptLoss::Found ScriptLoss::run(const Given& given, const std::vector<at::Tensor>& by,
                                  uint64_t seed) {
  const at::AutoGradMode training(true);
  const ScriptCall call(seed, device_);
  std::vector<torch::jit::IValue> values;
  for (const Argument argument : arguments_) values.emplace_back(given[argument]);
  const at::Tensor loss = checked(module_.forward(values));
  Found found{loss.detach(), torch::autograd::grad({loss}, by, {}, /*retain_graph=*/false,
                                                   /*create_graph=*/false, /*allow_unused=*/true)};
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (!found.gradients[i].defined()) found.gradients[i] = at::zeros_like(by[i]);
  }
  return found;
}

// One step on zeros, before the first round.
void ScriptLoss::try_out() {
  constexpr int64_t kRows = 2;
  const at::TensorOptions there = at::TensorOptions(at::kFloat).device(device_);
  const at::Tensor logits = at::zeros({kRows, case_.outputs}, there);
  const at::Tensor row = at::zeros({case_.n_trainable}, there);
  const at::Tensor own = at::zeros({kRows * case_.labels.values}, there);
  std::vector<at::Tensor> by;
  const Given given{logits.clone(),
                    labels(case_.labels.classes == 0 ? own : own.to(at::kInt), kRows),
                    at::ones({kRows}, there),
                    row.clone(),
                    row,
                    logits};
  for (const Argument argument : {kLogits, kRow}) {
    if (names(argument)) by.push_back(given[argument].requires_grad_());
  }
  try {
    run(given, by, RandomStream(0, Purpose::kDropout).next());
  } catch (const std::exception& error) {
    throw InvalidArgument(
        fmt::format("the objective makes no loss of {} samples with {} logits each{}: {}", kRows,
                    case_.outputs, device_.is_cpu() ? "" : " on " + device_.str(), one_line(error)),
        case_.path, "its forward returns the loss of a batch, a float32 scalar");
  }
}

std::unique_ptr<Objective> make_objective(const ObjectiveCase& c) {
  return std::make_unique<ScriptObjective>(c);
}

}  // namespace hanse
