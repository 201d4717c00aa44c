// Losses of the user's own, saved from Python.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "networks/scripts/script.hpp"
#include "objective.hpp"

namespace hanse {

// A scripted module whose forward returns the loss of a batch; train_for() says what it gets.
// Random operators draw from LibTorch's generator, which every step seeds from the client's stream.
class ScriptLoss {
 public:
  enum Argument { kLogits, kLabels, kSampleWeights, kRow, kReceivedRow, kReceivedLogits };
  static constexpr std::size_t kArguments = 6;
  using Given = std::array<at::Tensor, kArguments>;  // by Argument; those it names are defined

  struct Found {
    at::Tensor loss;                    // a scalar
    std::vector<at::Tensor> gradients;  // zeros where the loss does not depend on it
  };

  // On `device`. Throws InvalidArgument.
  ScriptLoss(ObjectiveCase c, const at::Device& device);

  bool names(Argument argument) const;
  const ObjectiveCase& of() const { return case_; }
  // The labels as forward gets them, from those of `rows` samples: int32, or float32 targets.
  at::Tensor labels(const at::Tensor& own, int64_t rows) const;
  // The loss of a batch, and its gradients by these tensors of it. Throws Error when it fails.
  Found differentiate(const Given& given, const std::vector<at::Tensor>& by, uint64_t seed);

 private:
  void find_arguments();
  Found run(const Given& given, const std::vector<at::Tensor>& by, uint64_t seed);
  void try_out();

  ObjectiveCase case_;
  at::Device device_;
  torch::jit::Module module_;
  std::vector<Argument> arguments_;  // of forward, in its order
};

// The objective of such a module, on the CPU. Throws InvalidArgument.
std::unique_ptr<Objective> make_objective(const ObjectiveCase& c);

}  // namespace hanse
