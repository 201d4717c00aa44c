#include "networks/scripts/script_objective.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "networks/scripts/script.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "client.objective";

enum class Argument { kLogits, kLabels, kSampleWeights, kRow, kReceivedRow, kReceivedLogits };

constexpr std::array<std::pair<const char*, Argument>, 6> kArguments = {
    {{"logits", Argument::kLogits},
     {"labels", Argument::kLabels},
     {"sample_weights", Argument::kSampleWeights},
     {"row", Argument::kRow},
     {"received_row", Argument::kReceivedRow},
     {"received_logits", Argument::kReceivedLogits}}};

Argument argument_called(const std::string& name, const std::string& path) {
  std::vector<std::string> known;
  for (const auto& [called, argument] : kArguments) {
    if (name == called) return argument;
    known.emplace_back(called);
  }
  throw InvalidArgument(fmt::format("forward has the argument {}", name), path,
                        "known: " + join(known, ", "));
}

class ScriptObjective final : public Objective {
 public:
  explicit ScriptObjective(ObjectiveCase c)
      : case_(std::move(c)),
        module_(read_script(case_.path, kKey, "scripts/export-objective writes one")) {
    find_arguments();
    if (names(Argument::kRow)) row_gradient_.resize(static_cast<std::size_t>(case_.n_trainable));
    module_.train();
    try_out();
  }

  bool needs_received_row() const override { return names(Argument::kReceivedRow); }
  bool needs_received_logits() const override { return names(Argument::kReceivedLogits); }
  std::span<const float> row_gradient() const override { return row_gradient_; }

  double loss_and_delta(const ObjectiveStep& step, RandomStream& noise, float* logits) override {
    try {
      return differentiate(step, noise, logits);
    } catch (const std::exception& error) {
      throw Error(
          fmt::format("the objective fails on a batch of {}: {}", step.batch.rows, one_line(error)),
          case_.path);
    }
  }

 private:
  bool names(Argument argument) const {
    return std::find(arguments_.begin(), arguments_.end(), argument) != arguments_.end();
  }

  void find_arguments() {
    const auto method = module_.find_method("forward");
    if (!method) throw InvalidArgument("the module has no forward", case_.path);
    const auto& schema = method->function().getSchema().arguments();
    for (std::size_t i = 1; i < schema.size(); ++i) {  // behind self
      arguments_.push_back(argument_called(schema[i].name(), case_.path));
    }
    if (names(Argument::kLogits) || names(Argument::kRow)) return;
    throw InvalidArgument("forward has neither logits nor row among its arguments", case_.path,
                          "there is nothing to train by");
  }

  static at::Tensor view(const float* values, at::IntArrayRef shape) {
    return at::from_blob(const_cast<float*>(values), shape, at::kFloat);  // which knows no const
  }

  at::Tensor labels(const Batch& batch) const {
    std::vector<int64_t> shape = {batch.rows};
    if (case_.labels.values > 1 || case_.labels.multi_label) shape.push_back(case_.labels.values);
    if (case_.labels.classes == 0) return view(batch.targets, shape);
    return at::from_blob(const_cast<int32_t*>(batch.labels), shape, at::kInt).to(at::kLong);
  }

  static at::Tensor weights(const Batch& batch) {
    at::Tensor ones = at::ones({batch.rows});
    float* to = ones.data_ptr<float>();
    for (int64_t r = 0; batch.class_weights != nullptr && r < batch.rows; ++r) {
      to[r] = batch.class_weights[batch.labels[r]];
    }
    return ones;
  }

  at::Tensor made(Argument argument, const ObjectiveStep& step, const float* logits) const {
    const int64_t rows = step.batch.rows;
    const std::array<int64_t, 2> shape = {rows, case_.outputs};
    switch (argument) {
      case Argument::kLogits: return view(logits, shape).clone().requires_grad_();
      case Argument::kLabels: return labels(step.batch);
      case Argument::kSampleWeights: return weights(step.batch);
      case Argument::kRow: return view(step.row.data(), {case_.n_trainable}).requires_grad_();
      case Argument::kReceivedRow: return view(step.received.data(), {case_.n_trainable});
      default: return view(step.received_logits, shape);
    }
  }

  // Writes both gradients.
  double differentiate(const ObjectiveStep& step, RandomStream& noise, float* logits) {
    const at::AutoGradMode training(true);
    const ScriptCall call(noise.next());
    std::vector<torch::jit::IValue> given;
    std::vector<at::Tensor> by;  // what is differentiated by ...
    std::vector<float*> to;      // ... and where that goes
    for (const Argument argument : arguments_) {
      const at::Tensor tensor = made(argument, step, logits);
      given.emplace_back(tensor);
      if (!tensor.requires_grad()) continue;
      by.push_back(tensor);
      to.push_back(argument == Argument::kRow ? row_gradient_.data() : logits);
    }
    const at::Tensor loss = checked(module_.forward(given));
    const auto gradients = torch::autograd::grad({loss}, by, {}, /*retain_graph=*/false,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    if (!names(Argument::kLogits)) std::fill_n(logits, step.batch.rows * case_.outputs, 0.0F);
    for (std::size_t i = 0; i < by.size(); ++i) {
      const at::Tensor gradient =
          gradients[i].defined() ? gradients[i].contiguous() : at::zeros_like(by[i]);
      std::copy_n(gradient.data_ptr<float>(), gradient.numel(), to[i]);
    }
    return loss.item<double>();
  }

  static at::Tensor checked(const torch::jit::IValue& output) {
    if (!output.isTensor()) throw std::runtime_error("it returns " + output.tagKind());
    const at::Tensor loss = output.toTensor();
    if (loss.numel() != 1 || loss.scalar_type() != at::kFloat) {
      throw std::runtime_error(fmt::format("it returns {} values of type {}, not one Float",
                                           loss.numel(), c10::toString(loss.scalar_type())));
    }
    if (!loss.requires_grad()) throw std::runtime_error("it depends on neither logits nor row");
    return loss;
  }

  // One step on zeros, before the first round.
  void try_out() {
    constexpr int64_t kRows = 2;
    const std::vector<float> targets(static_cast<std::size_t>(kRows * case_.labels.values));
    const std::vector<float> row(static_cast<std::size_t>(case_.n_trainable));
    const std::vector<int32_t> classes(kRows);
    std::vector<float> logits(static_cast<std::size_t>(kRows * case_.outputs));
    const std::vector<float> received = logits;
    const Batch batch{.labels = classes.data(), .targets = targets.data(), .rows = kRows};
    RandomStream noise(0, Purpose::kDropout);
    try {
      differentiate({batch, row, row, received.data()}, noise, logits.data());
    } catch (const std::exception& error) {
      throw InvalidArgument(fmt::format("the objective makes no loss of {} samples with {} logits "
                                        "each: {}",
                                        kRows, case_.outputs, one_line(error)),
                            case_.path,
                            "its forward returns the loss of a batch, a float32 scalar");
    }
  }

  ObjectiveCase case_;
  torch::jit::Module module_;
  std::vector<Argument> arguments_;  // of forward, in its order
  std::vector<float> row_gradient_;  // [trainable] when it has the row among them
};

}  // namespace

std::unique_ptr<Objective> make_objective(const ObjectiveCase& c) {
  return std::make_unique<ScriptObjective>(c);
}

}  // namespace hanse
