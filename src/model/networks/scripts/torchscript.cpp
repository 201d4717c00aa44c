#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/script.h>
#include <torch/version.h>

#include "hanse/base/error.hpp"
#include "hanse/model/torch_library.hpp"
#include "makers.hpp"
#include "networks/autocast.hpp"
#include "networks/graph.hpp"
#include "networks/scripts/script.hpp"
#include "networks/scripts/script_graph.hpp"

namespace hanse {

namespace {

std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// What to do about a message of forward().
std::string hint_at(const std::string& message) {
  if (contains(message, "output is Tuple")) return "return the logits alone, such as output[0]";
  if (contains(message, "output is GenericDict")) {
    return "return the logits alone, such as output['logits']";
  }
  if (contains(message, "missing value for argument")) {
    return "forward gets one tensor: let a module around yours split it and call yours";
  }
  if (contains(message, "Long, Int")) {
    return "samples are float32: call x.long() on tokens before an embedding";
  }
  if (contains(message, "conv1d")) {
    return "conv1d takes samples [channels, length]: give data.shape, or x.flatten(1, 2) in "
           "forward";
  }
  return "its forward gets a batch of samples of the data's shape";
}

// Does a bfloat16 tensor stand between the parameters and this result of theirs?
bool has_bfloat16(const at::Tensor& result) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next = {result.grad_fn().get()};
  while (!next.empty()) {
    torch::autograd::Node* node = next.back();
    next.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (uint32_t i = 0; i < node->num_inputs(); ++i) {
      if (node->input_metadata(i).dtype() == at::kBFloat16) return true;
    }
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  return false;
}

class TorchScriptModel final : public GraphModel {
 public:
  explicit TorchScriptModel(const ModelCase& c)
      : GraphModel(c.loss, c.options.precision),
        path_(c.options.path),
        sample_shape_(c.sample_shape),
        module_(read_script(path_, "model.path", "scripts/export-model writes one", at::kCPU,
                            &compared_)) {
    find_parameters();
    find_buffers();
    find_frozen();
    tie_names();
    check_names();
    check_graph();
    for (const int64_t rows : {2, 3}) {
      try_out(rows, false);
      try_out(rows, true);
    }
    if (is_bfloat16()) try_bfloat16();
  }

  // The file's values; zeros in the parameters when asked for.
  void draw(std::span<float> row, RandomStream&) const override {
    std::copy(start_.begin(), start_.end(), row.begin());
    if (from_zeros_) std::fill_n(row.begin(), layout_.n_trainable(), 0.0F);
  }

  void forget_start() override {
    start_ = {};
    bound_row_ = nullptr;
  }

  void move_buffers(std::span<float> row) const override {
    std::copy(buffers_.begin(), buffers_.end(), row.begin() + layout_.n_trainable());
  }

  int64_t evaluation_rows() const override { return 64; }
  int64_t compared_rows() const override { return compared_; }
  std::vector<WholeNumbers> whole_numbers() const override {
    return whole_numbers_of(integer_parts(module_, sample_shape_), path_);
  }

 protected:
  const std::vector<at::Tensor>& leaves(const float* row) override {
    const at::NoGradGuard no_grad;
    if (row != bound_row_) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i].set_data(slot_view(row, layout_.slots()[i]));
      }
      const std::size_t first = layout_.slots().size() - frozen_.size();
      for (std::size_t i = 0; i < frozen_.size(); ++i) {
        frozen_[i].set_data(slot_view(row, layout_.slots()[first + i]));
      }
      bound_row_ = row;
    }
    std::copy_n(row + layout_.n_trainable(), buffers_.size(), buffers_.begin());
    for (const Carried& carried : carried_) carried.buffer.copy_(carried.value);
    return parameters_;
  }

  at::Tensor graph(const std::vector<at::Tensor>&, const Batch& batch,
                   RandomStream* noise) override {
    try {
      const at::Tensor output = forward(batch, noise);
      if (output.numel() == batch.rows * loss().logits()) return in_order(output);
      throw std::runtime_error(fmt::format("its output has {} values", output.numel()));
    } catch (const std::exception& error) {
      throw Error(fmt::format("the model fails on a batch of {}: {}", batch.rows, one_line(error)),
                  path_, "");
    }
  }

 private:
  struct Carried {
    at::Tensor buffer;  // of the module
    at::Tensor value;   // in the file
  };

  // Tensors that a module holds under two names are one parameter, under the first.
  bool is_new(const std::string& name, const at::Tensor& tensor) {
    const auto [first, is_new] = seen_.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!is_new && first->second != name) further_names_.emplace(name, first->second);
    return is_new;
  }

  void require_float(const std::string& what, const std::string& name, const at::Tensor& tensor) {
    if (tensor.scalar_type() == at::kFloat) return;
    throw InvalidArgument(fmt::format("{} {} is {}, not Float", what, name, type_name(tensor)),
                          path_, "call model.float() before it is saved");
  }

  void keep_start(const at::Tensor& tensor) {
    const at::Tensor flat = tensor.detach().contiguous();
    start_.insert(start_.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }

  void find_parameters() {
    for (const auto& parameter : module_.named_parameters()) {
      require_float("parameter", parameter.name, parameter.value);
      if (!parameter.value.requires_grad()) continue;
      if (!is_new(parameter.name, parameter.value)) continue;
      layout_.add(parameter.name, parameter.value.sizes().vec(), 1);
      keep_start(parameter.value);
      parameters_.push_back(parameter.value);
    }
    if (!parameters_.empty()) return;
    throw InvalidArgument("the module has no parameters to train", path_,
                          "do not freeze it (torch.jit.freeze) before it is saved");
  }

  void find_buffers() {
    std::vector<at::Tensor> buffers;
    const auto add = [&](const std::string& name, const at::Tensor& tensor) {
      layout_.add_buffer(name, tensor.sizes().vec());
      keep_start(tensor);
      buffers.push_back(tensor);
    };
    for (const auto& buffer : module_.named_buffers()) {
      if (!is_new(buffer.name, buffer.value)) continue;
      if (!buffer.value.is_floating_point()) {
        carry(buffer.name, buffer.value);
        continue;
      }
      require_float("buffer", buffer.name, buffer.value);
      add(buffer.name, buffer.value);
    }
    bind_buffers(buffers);
  }

  // Parameters without a gradient.
  void find_frozen() {
    for (const auto& parameter : module_.named_parameters()) {
      if (!is_new(parameter.name, parameter.value)) continue;
      layout_.add_frozen(parameter.name, parameter.value.sizes().vec());
      keep_start(parameter.value);
      frozen_.push_back(parameter.value);
    }
  }

  void bind_buffers(std::vector<at::Tensor>& buffers) {
    buffers_.assign(start_.begin() + layout_.n_trainable(), start_.end());
    std::size_t slot = parameters_.size();
    float* memory = buffers_.data();
    for (at::Tensor& buffer : buffers) {
      buffer.set_data(at::from_blob(memory, layout_.slots()[slot].shape, at::kFloat));
      memory += layout_.slots()[slot++].size;
    }
  }

  void carry(const std::string& name, const at::Tensor& buffer) {
    const at::Tensor whole = buffer.to(at::kLong).contiguous();
    const auto* values = whole.data_ptr<int64_t>();
    layout_.carry({name, buffer.sizes().vec(), {values, values + whole.numel()}});
    carried_.push_back({buffer, buffer.clone()});
  }

  // Tensors that have several names are saved under each.
  void tie_names() {
    std::vector<CarriedTensor> integers;
    for (const auto& [also, name] : further_names_) {
      const auto is_named = [&](const auto& tensor) { return tensor.name == name; };
      if (std::ranges::any_of(layout_.slots(), is_named)) {
        layout_.tie(name, also);
        continue;
      }
      integers.push_back(*std::ranges::find_if(layout_.carried(), is_named));
      integers.back().name = also;
    }
    for (CarriedTensor& tensor : integers) layout_.carry(std::move(tensor));
  }

  void check_names() {
    for (const ParameterSlot& slot : layout_.slots()) {
      if (slot.name != "row") continue;
      throw InvalidArgument("the module calls a tensor row", path_,
                            "that name is the whole row's in model.h5: choose another");
    }
  }

  void check_graph() const {
    if (const std::string frozen = frozen_operators(module_); !frozen.empty()) {
      throw InvalidArgument(
          fmt::format("training and evaluation are the same to {}: torch.jit.trace keeps the mode "
                      "of its call",
                      frozen),
          path_,
          "torch.jit.script(model), or script a module that has a trace of each mode and chooses "
          "by self.training, as scripts/export-model --trace does");
    }
    if (has_cumulative_mean(module_)) {
      throw InvalidArgument(
          "batch norm has a cumulative mean, whose count of batches is an integer, "
          "and integer buffers stay as they are",
          path_, "BatchNorm(momentum=0.1) in the place of momentum=None");
    }
    warn_of_activation(last_activation(module_), loss(), path_);
  }

  // The output of sequences may be [rows, outputs, positions ...], as images have it.
  at::Tensor in_order(const at::Tensor& output) const {
    if (loss().positions() == 1 || !classes_first_) return output;
    return output.flatten(2).transpose(1, 2);
  }

  // Does it have the shape that was expected? Notes where a sequence has its outputs.
  bool has_logits(const at::Tensor& output, int64_t rows) {
    const int64_t outputs = loss().outputs(), positions = loss().positions();
    if (output.scalar_type() != at::kFloat || output.dim() == 0 || output.size(0) != rows ||
        output.numel() != rows * loss().logits()) {
      return false;
    }
    if (positions == 1) return output.dim() == 2 || (outputs == 1 && output.dim() == 1);
    if (output.dim() < 3) return false;
    const bool first = output.size(1) == outputs, last = output.size(-1) == outputs;
    classes_first_ = first && (output.dim() > 3 || !last);
    return first || last;
  }

  at::Tensor forward(const Batch& batch, RandomStream* noise) {
    const bool training = noise != nullptr;
    if (training != module_.is_training()) module_.train(training);
    std::vector<int64_t> shape = {batch.rows};
    shape.insert(shape.end(), sample_shape_.begin(), sample_shape_.end());
    const at::Tensor input = at::from_blob(const_cast<float*>(batch.features), shape, at::kFloat);
    const ScriptCall call(training ? noise->next() : 0);
    const torch::jit::IValue output = module_.forward({input});
    if (!output.isTensor()) {
      throw std::runtime_error("its output is " + output.tagKind() + ", not a tensor");
    }
    return output.toTensor();
  }

  // One pass on zeros in float32, before the first round.
  void try_out(int64_t rows, bool training) {
    const std::vector<float> zeros(static_cast<std::size_t>(rows * size_of(sample_shape_)));
    const Batch batch{.features = zeros.data(), .rows = rows};
    RandomStream noise(0, Purpose::kDropout);
    at::Tensor output;
    try {
      leaves(start_.data());
      output = forward(batch, training ? &noise : nullptr);
    } catch (const std::exception& error) {
      throw InvalidArgument(fmt::format("the model takes no float32 samples [{}, {}]: {}", rows,
                                        fmt::join(sample_shape_, ", "), one_line(error)),
                            path_, hint_at(error.what()));
    }
    if (!has_logits(output, rows)) {
      std::vector<int64_t> expected = {rows, loss().outputs()};
      if (loss().positions() > 1) expected.insert(expected.begin() + 1, loss().positions());
      throw InvalidArgument(
          fmt::format("the model's output for {} samples is {} [{}], not Float [{}]", rows,
                      type_name(output), fmt::join(output.sizes(), ", "),
                      fmt::join(expected, ", ")),
          path_,
          loss().positions() > 1
              ? "each position of a sample has a class here: its logits, or [rows, classes, ...]"
              : "one logit a class (one in all for binary-logistic and regression)");
    }
    if (training && !output.requires_grad()) {
      throw InvalidArgument("the model's output does not depend on its parameters", path_,
                            "save it without torch.no_grad() and detach()");
    }
  }

  // Operators that compute in float32 need not do so in bfloat16, or not on the way back.
  void try_bfloat16() {
    constexpr int64_t kRows = 2;
    const std::vector<float> zeros(static_cast<std::size_t>(kRows * size_of(sample_shape_)));
    const Batch batch{.features = zeros.data(), .rows = kRows};
    RandomStream noise(0, Purpose::kDropout);
    bool narrow = false;
    try {
      leaves(start_.data());
      const auto narrowly = [&](RandomStream* drawn) {
        return in_precision(true, at::kCPU, [&] { return forward(batch, drawn); });
      };
      narrowly(nullptr);
      const at::Tensor output = narrowly(&noise);
      narrow = has_bfloat16(output);
      torch::autograd::grad({output.sum()}, parameters_, {}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
    } catch (const std::exception& error) {
      throw InvalidArgument(fmt::format("LibTorch {} does not run the model in bfloat16: {}",
                                        TORCH_VERSION, one_line(error)),
                            path_,
                            "model.precision = float32, or " + newer_torch_hint(TORCH_VERSION));
    }
    if (narrow) return;
    throw InvalidArgument("LibTorch's autocast leaves all of the model in float32", path_,
                          "use model.precision = float32");
  }

  std::string path_;
  std::vector<int64_t> sample_shape_;
  int64_t compared_ = 0;  // rows
  torch::jit::Module module_;
  std::map<const void*, std::string> seen_;           // tensors, by the names of their slots
  std::map<std::string, std::string> further_names_;  // of tied ones, with the first
  bool classes_first_ = false;                        // [rows, outputs, positions ...]
  std::vector<float> start_;                          // [P] the file's values
  std::vector<at::Tensor> parameters_;                // of the module; alias *bound_row_
  std::vector<at::Tensor> frozen_;                    // likewise
  std::vector<float> buffers_;                        // aliased by the module's float buffers
  std::vector<Carried> carried_;
  const float* bound_row_ = nullptr;
};

}  // namespace

std::unique_ptr<Model> make_torchscript(const ModelCase& c) {
  if (c.options.init == ModelInit::kUniform) {
    throw InvalidArgument("a torchscript model starts from its file", "model.init",
                          "auto (the file's values) or zeros");
  }
  return std::make_unique<TorchScriptModel>(c);
}

}  // namespace hanse
