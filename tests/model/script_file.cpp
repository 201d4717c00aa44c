#include "script_file.hpp"

#include <set>

#include <torch/script.h>

#include "support/scratch_folder.hpp"

namespace hanse {

namespace {

using torch::jit::Module;

const std::string kForward = "def forward(self, x):\n";

at::Tensor spread(at::IntArrayRef shape) {
  const at::Tensor values = at::arange(c10::multiply_integers(shape), at::kFloat);
  return (values * 0.7).sin().mul(0.5).view(shape);
}

void add_dense(Module& module, int64_t inputs, at::ScalarType type = at::kFloat,
               bool trainable = true) {
  module.register_parameter("weight", spread({3, inputs}).to(type).requires_grad_(trainable),
                            false);
  module.register_parameter("bias", spread({3}).to(type).requires_grad_(), false);
}

Module with_dense(int64_t inputs, const std::string& forward, at::ScalarType type = at::kFloat,
                  bool trainable = true) {
  Module module("Network");
  module.register_attribute("training", c10::BoolType::get(), true);
  add_dense(module, inputs, type, trainable);
  module.define(kForward + forward);
  return module;
}

const std::string kDense = "  return torch.linear(torch.flatten(x, 1), self.weight, self.bias)\n";

Module with_norm(const std::string& factor) {
  Module module("Network");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_buffer("running_mean", spread({4}));
  module.register_buffer("running_var", spread({4}).abs() + 1);
  module.register_buffer("batches", at::full({}, 5, at::kLong));
  module.register_parameter("scale", at::ones({4}).requires_grad_(), false);
  add_dense(module, 4);
  module.define(kForward +
                "  if self.training:\n"
                "    self.batches.add_(1)\n"
                "  y = torch.batch_norm(x, self.scale, None, self.running_mean, self.running_var,\n"
                "                       self.training, " +
                factor +
                ", 1e-5, False)\n"
                "  return torch.linear(y, self.weight, self.bias)\n");
  return module;
}

Module with_dropout() {
  Module module("Network");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("scale", at::ones({4}).requires_grad_(), false);
  add_dense(module, 4);
  module.define(kForward +
                "  y = torch.layer_norm(x, [4], self.scale, None, 1e-5, False)\n"
                "  y = torch.dropout(torch.tanh(y) * 2, 0.5, self.training)\n"
                "  return torch.linear(y, self.weight, self.bias)\n");
  return module;
}

Module tied() {
  Module module("Network");
  const at::Tensor weight = spread({3, 3}).requires_grad_();
  module.register_parameter("first", weight, false);
  module.register_parameter("second", weight, false);
  module.define(kForward + "  return (x @ self.first).tanh() @ self.second\n");
  return module;
}

Module without_parameters() {
  Module module("Network");
  module.define(kForward + "  return x[:, 0:3]\n");
  return module;
}

Module make(const std::string& name) {
  if (name == "linear") return with_dense(144, kDense);
  if (name == "batch-norm") return with_norm("0.25");
  if (name == "cumulative") return with_norm("1 / float(self.batches)");
  if (name == "dropout") return with_dropout();
  if (name == "frozen") return with_dense(4, kDense, at::kFloat, false);
  if (name == "tied") return tied();
  if (name == "centred") {
    return with_dense(4,
                      "  y = x - torch.mean(x, [0], True)\n"
                      "  return torch.linear(y, self.weight, self.bias)\n");
  }
  if (name == "double") return with_dense(4, kDense, at::kDouble);
  if (name == "half") return with_dense(4, kDense, at::kHalf);
  if (name == "no-parameters") return without_parameters();
  if (name == "detached") {
    return with_dense(4, "  return torch.linear(x, self.weight, self.bias).detach()\n");
  }
  if (name == "integers") return with_dense(4, "  return x[:, 0:3].long()\n");
  if (name == "two-outputs") return with_dense(4, "  return x, self.weight\n");
  return with_dense(4, "  return torch.linear(x.view(2, 4), self.weight, self.bias)\n");
}

}  // namespace

std::string script_file(const std::string& name) {
  static const ScratchFolder folder;
  static std::set<std::string> written;
  const std::string path = folder / (name + ".pt");
  if (written.insert(name).second) make(name).save(path);
  return path;
}

}  // namespace hanse
