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

Module with_norm(const std::string& factor, const std::string& training = "self.training") {
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
                "                       " +
                training + ", " + factor +
                ", 1e-5, False)\n"
                "  return torch.linear(y, self.weight, self.bias)\n");
  return module;
}

Module counted() {
  Module module("Network");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_buffer("batches", at::full({}, 5, at::kLong));
  add_dense(module, 4);
  module.define(kForward +
                "  if self.training:\n"
                "    self.batches.add_(1)\n"
                "  return torch.linear(x * self.batches, self.weight, self.bias)\n");
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

// Queries, keys and values [rows, 2 heads, 2 positions, 2] of 4 values.
Module with_attention(const std::string& attention) {
  Module module("Network");
  module.register_parameter("weight", (spread({24, 4}) * 3).requires_grad_(), false);
  module.define(kForward +
                "  y = torch.linear(x, self.weight, None).view(-1, 3, 2, 2, 2)\n"
                "  q, k, v = y[:, 0], y[:, 1], y[:, 2]\n" +
                attention + "  return torch.flatten(z, 1)[:, 1:4]\n");
  return module;
}

const std::string kAttention =
    "  z = torch.scaled_dot_product_attention(q, k, v, None, 0.0, True)\n";
const std::string kAttentionByHand =
    "  s = torch.matmul(q, k.transpose(-2, -1)) / 1.4142135623730951\n"
    "  s = s.masked_fill(torch.tril(torch.ones([2, 2])) == 0, float('-inf'))\n"
    "  z = torch.matmul(torch.softmax(s, -1), v)\n";

const std::string kPositions = "x.unsqueeze(-1) * torch.mean(self.weight, [1]) + self.bias";

// A dense layer behind a convolution, or before a norm.
Module with_more(const std::string& name) {
  Module module("Network");
  const bool norm = name == "dense-norm";
  module.register_parameter(
      "more", spread(norm ? at::IntArrayRef({3}) : at::IntArrayRef({3, 1, 2, 2})).requires_grad_(),
      false);
  add_dense(module, norm ? 4 : 3);
  const std::string dense = "torch.linear(y, self.weight, self.bias)";
  module.define(kForward + (norm ? "  y = x\n  return torch.layer_norm(" + dense +
                                       ", [3], self.more, None, 1e-5, False)\n"
                                 : "  y = torch.flatten(torch.relu(torch.conv2d(x.view(-1, 1, 2, "
                                   "2), self.more)), 1)\n  return " +
                                       dense + "\n"));
  return module;
}

Module with_new_forms(const std::string& name) {
  if (name == "attention") return with_attention(kAttention);
  if (name == "attention-by-hand") return with_attention(kAttentionByHand);
  if (name == "positions") return with_dense(4, "  return " + kPositions + "\n");
  if (name == "positions-first") {
    return with_dense(4, "  return (" + kPositions + ").transpose(1, 2)\n");
  }
  if (name == "softmax") {
    return with_dense(4, "  return torch.softmax(torch.linear(x, self.weight, self.bias), -1)\n");
  }
  if (name == "convolution" || name == "dense-norm") return with_more(name);
  if (name == "dictionary") return with_dense(4, "  return {'logits': x}\n");
  if (name == "tokens") return with_dense(4, "  return torch.embedding(self.weight, x)\n");
  if (name == "signals") {
    return with_dense(4, "  return torch.conv1d(x, self.weight.unsqueeze(1)).mean(-1)\n");
  }
  if (name == "two-inputs") {
    Module module("Network");
    add_dense(module, 4);
    module.define("def forward(self, x, y):\n  return torch.linear(x + y, self.weight)\n");
    return module;
  }
  const std::string dense = "  return torch.linear(y, self.weight, self.bias)\n";
  if (name == "both-modes") {
    return with_dense(4,
                      "  if self.training:\n    y = torch.dropout(x, 0.5, True)\n"
                      "  else:\n    y = torch.dropout(x, 0.5, False)\n" +
                          dense);
  }
  if (name == "late-dropout") {
    return with_dense(4,
                      "  if not self.training:\n    y = torch.dropout(x, 0.5, True)\n"
                      "  else:\n    y = torch.dropout(x, 0.5, True)\n" +
                          dense);
  }
  if (name == "bytes") {
    return with_dense(4,
                      "  y = torch.cat([x[:, 1:3].byte().float(), x[:, 0:1],"
                      " x[:, 3].long().float().unsqueeze(1)], 1)\n" +
                          dense);
  }
  if (name == "softmax-turned") {
    return with_dense(4,
                      "  y = torch.linear(x, self.weight, self.bias).softmax(1)\n"
                      "  return y.unsqueeze(2).transpose(1, 2).flatten(1)\n");
  }
  if (name == "frozen-dropout") {
    return with_dense(4, "  y = torch.dropout(x, 0.5, True)\n" + dense);
  }
  Module module = with_norm("0.25", "False");
  return module;
}

Module make(const std::string& name) {
  if (name == "linear") return with_dense(144, kDense);
  if (name == "batch-norm") return with_norm("0.25");
  if (name == "cumulative") return with_norm("1 / float(self.batches)");
  if (name == "counted") return counted();
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
  if (name == "one-batch") {
    return with_dense(4, "  return torch.linear(x.view(2, 4), self.weight, self.bias)\n");
  }
  return with_new_forms(name);
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
