#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <torch/script.h>

#include "hanse/base/error.hpp"
#include "networks/autocast.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/scripts/script.hpp"

namespace hanse {

namespace {

// A module knows no clients: it gets each one's parameters in the place of its own, and the samples
// that the client has, one client after the other. Each forward pass stands in the graph of all.
class ScriptCohort final : public CohortForward {
 public:
  ScriptCohort(const ModelCase& c, const std::string& device)
      : path_(c.options.path),
        sample_shape_(c.sample_shape),
        outputs_(c.loss->outputs()),
        device_(device),
        narrow_(is_bfloat16(c.options)),
        module_(read_script(path_, "model.path", "scripts/export-model writes one", device_)) {
    find_parameters();
    for (const auto& buffer : module_.named_buffers()) {
      carried_.emplace_back(buffer.value, buffer.value.clone());
    }
    try_out();
  }

  bool can_be_recorded() const override { return false; }  // a pass takes seeds from the host

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor>) const override {
    std::vector<at::Tensor> all;
    for (int64_t client = 0; client < input.size(0); ++client) {
      all.push_back(one(leaves, client, input[client], {}));
    }
    return at::stack(all);
  }

  at::Tensor training_logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                             std::span<const at::Tensor>, const StepOfClients& step) override {
    const int64_t places = input.size(1);
    std::vector<at::Tensor> all;
    for (int64_t client = 0; client < input.size(0); ++client) {
      const int64_t n = step.counts[static_cast<std::size_t>(client)];
      const at::Tensor rest = at::zeros({places - n, outputs_}, input.options());
      if (n == 0) {
        all.push_back(rest);
        continue;
      }
      const uint64_t seed = step.seeds[static_cast<std::size_t>(client)];
      all.push_back(at::cat({one(leaves, client, input[client].narrow(0, 0, n), seed), rest}));
    }
    return at::stack(all);
  }

 private:
  // A name under which a module holds a parameter; one that has two names is held twice.
  struct Held {
    torch::jit::Module owner;
    std::string name;
    std::size_t leaf;  // in the layout's order
  };

  void find_parameters() {
    std::map<const void*, std::size_t> leaves;
    for (const auto& parameter : module_.named_parameters()) {
      leaves.emplace(parameter.value.unsafeGetTensorImpl(), leaves.size());
    }
    for (const auto& part : module_.named_modules()) {
      for (const auto& parameter : part.value.named_parameters(/*recurse=*/false)) {
        held_.push_back(
            {part.value, parameter.name, leaves.at(parameter.value.unsafeGetTensorImpl())});
      }
    }
  }

  // Logits [n, outputs] of a client's samples [n, values]. `seed`: training.
  at::Tensor one(std::span<const at::Tensor> leaves, int64_t client, const at::Tensor& samples,
                 std::optional<uint64_t> seed) const {
    for (Held& held : held_) held.owner.setattr(held.name, leaves[held.leaf][client]);
    {
      const at::NoGradGuard no_grad;
      for (const auto& [buffer, value] : carried_) buffer.copy_(value);
    }
    try {
      const at::Tensor output = forward(samples, seed);
      if (output.numel() == samples.size(0) * outputs_) {
        return output.reshape({samples.size(0), outputs_});
      }
      throw std::runtime_error(fmt::format("its output has {} values", output.numel()));
    } catch (const std::exception& error) {
      throw Error(
          fmt::format("the model fails on a batch of {}: {}", samples.size(0), one_line(error)),
          path_, "");
    }
  }

  at::Tensor forward(const at::Tensor& samples, std::optional<uint64_t> seed) const {
    const bool training = seed.has_value();
    if (training != module_.is_training()) module_.train(training);
    std::vector<int64_t> shape = {samples.size(0)};
    shape.insert(shape.end(), sample_shape_.begin(), sample_shape_.end());
    const ScriptCall call(seed.value_or(0), device_);
    return in_precision(narrow_, device_.type(),
                        [&] { return module_.forward({samples.reshape(shape)}).toTensor(); });
  }

  // What a module does on the CPU it may not do elsewhere, and on the way back neither.
  void try_out() const {
    const auto zeros = at::zeros({2, size_of(sample_shape_)}, at::TensorOptions(device_));
    for (const auto mode : {std::optional<uint64_t>(), std::optional<uint64_t>(1)}) {
      try {
        const at::Tensor output = forward(zeros, mode);
        if (mode && output.requires_grad()) output.sum().backward();
      } catch (const std::exception& error) {
        throw InvalidArgument(fmt::format("the model fails on {}{}: {}", device_.str(),
                                          narrow_ ? " in bfloat16" : "", one_line(error)),
                              path_,
                              narrow_ ? "model.precision = float32, or run.device = cpu"
                                      : "its forward may name no device; or run.device = cpu");
      }
    }
  }

  std::string path_;
  std::vector<int64_t> sample_shape_;
  int64_t outputs_;
  at::Device device_;
  bool narrow_;  // products in bfloat16, by autocast
  mutable torch::jit::Module module_;
  mutable std::vector<Held> held_;
  std::vector<std::pair<at::Tensor, at::Tensor>> carried_;  // integer buffers and their values
};

}  // namespace

std::unique_ptr<CohortForward> make_script_cohort(const ModelCase& c, const std::string& device) {
  return std::make_unique<ScriptCohort>(c, device);
}

}  // namespace hanse
