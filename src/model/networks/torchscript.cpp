#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include "hanse/base/error.hpp"
#include "makers.hpp"
#include "networks/graph.hpp"
#include "networks/script.hpp"

namespace hanse {

namespace {

std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

class TorchScriptModel final : public GraphModel {
 public:
  TorchScriptModel(const std::string& path, const std::vector<int64_t>& sample_shape, LossPtr loss)
      : GraphModel(std::move(loss)),
        path_(path),
        sample_shape_(sample_shape),
        module_(read_script(path, "model.path", "scripts/export-model writes one")) {
    find_parameters();
    find_buffers();
    find_frozen();
    check_names();
    for (const int64_t rows : {2, 3}) {
      try_out(rows, false);
      try_out(rows, true);
    }
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
      if (output.numel() == batch.rows * loss().outputs()) return output;
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
  bool is_new(const at::Tensor& tensor) {
    return seen_.insert(tensor.unsafeGetTensorImpl()).second;
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
      if (!parameter.value.requires_grad() || !is_new(parameter.value)) continue;
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
      if (!is_new(buffer.value)) continue;
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
      if (!is_new(parameter.value)) continue;
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

  void check_names() const {
    for (const ParameterSlot& slot : layout_.slots()) {
      if (slot.name != "row") continue;
      throw InvalidArgument("the module calls a tensor row", path_,
                            "that name is the whole row's in model.h5: choose another");
    }
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

  // One pass on zeros, before the first round.
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
                            path_, "its forward gets a batch of samples of the data's shape");
    }
    const std::vector<int64_t> expected = {rows, loss().outputs()};
    const bool flat = loss().outputs() == 1 && output.sizes() == at::IntArrayRef(rows);
    if (output.scalar_type() != at::kFloat || (output.sizes() != expected && !flat)) {
      throw InvalidArgument(
          fmt::format("the model's output for {} samples is {} [{}], not Float [{}]", rows,
                      type_name(output), fmt::join(output.sizes(), ", "),
                      fmt::join(expected, ", ")),
          path_, "one logit a class (one in all for binary-logistic and regression)");
    }
    if (training && !output.requires_grad()) {
      throw InvalidArgument("the model's output does not depend on its parameters", path_,
                            "save it without torch.no_grad() and detach()");
    }
  }

  std::string path_;
  std::vector<int64_t> sample_shape_;
  torch::jit::Module module_;
  std::set<const void*> seen_;
  std::vector<float> start_;            // [P] the file's values
  std::vector<at::Tensor> parameters_;  // of the module; alias *bound_row_
  std::vector<at::Tensor> frozen_;      // likewise
  std::vector<float> buffers_;          // aliased by the module's float buffers
  std::vector<Carried> carried_;
  const float* bound_row_ = nullptr;
};

}  // namespace

std::unique_ptr<Model> make_torchscript(const ModelCase& c) {
  if (c.options.init == ModelInit::kUniform) {
    throw InvalidArgument("a torchscript model starts from its file", "model.init",
                          "auto (the file's values) or zeros");
  }
  return std::make_unique<TorchScriptModel>(c.options.path, c.sample_shape, c.loss);
}

}  // namespace hanse
