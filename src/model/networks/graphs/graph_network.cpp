// model.kind = graph: a network of a file that is data (graphs/graph_file.hpp).
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graphs/graph_facts.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/model/frozen_part.hpp"
#include "hanse/model/tensor_reader.hpp"
#include "layers/adapter.hpp"
#include "makers.hpp"
#include "network_model.hpp"
#include "networks/graphs/frozen_graph.hpp"
#include "networks/graphs/graph_passes.hpp"
#include "networks/graphs/pass_memory.hpp"

namespace hanse {

namespace {

constexpr const char* kExporter = "hanse.export(module, sample, path) in Python writes one";

// Gradients of adapters from products of few columns, as those of dense layers in closed form. In
// bfloat16 the factors are rounded, and the product is that of a pass.
GraphPasses::Take taking_factors(RowStep& step, const std::vector<ParameterSlot>& slots) {
  return [&](int64_t i, const at::Tensor& deltas, const at::Tensor& inputs) {
    const at::Tensor d = deltas.contiguous(), x = inputs.contiguous();
    return step.take({.offset = slots[to_index(i)].offset,
                      .out = d.size(1),
                      .in = x.size(1),
                      .samples = d.size(0),
                      .deltas = d.data_ptr<float>(),
                      .inputs = x.data_ptr<float>()});
  };
}

class GraphNetwork final : public NetworkModel, public TensorReader, public CuttableNetwork {
 public:
  explicit GraphNetwork(const ModelCase& c)
      : NetworkModel(c.loss),
        passes_(c.options.path, at::kCPU, is_bfloat16(c.options)),
        rounds_(is_bfloat16(c.options)),
        file_(passes_.file()) {
    check_shapes(c.sample_shape);
    if (!file_.representation.empty()) representation_width_ = file_.representation.back();
    warn_of_activation(last_activation(file_.evaluation), loss(), passes_.path());
    whole_numbers_ = whole_numbers_of(integer_parts(file_), passes_.path());
    lay_out();
    for (const int64_t rows : {2, 3}) {
      try_out(rows, false);
      try_out(rows, true);
    }
    passes_.drop_file();
  }

  // The file's values; zeros in the parameters when asked for.
  void draw(std::span<float> row, RandomStream&) const override {
    std::copy(start_.begin(), start_.end(), row.begin());
    if (from_zeros_) std::fill_n(row.begin(), layout_.n_trainable(), 0.0F);
  }

  void forget_start() override {
    start_ = std::vector<float>();  // {} would keep its memory
    bound_row_ = nullptr;
  }

  void move_buffers(std::span<float> row) const override {
    std::copy(new_buffers_.begin(), new_buffers_.end(), row.begin() + layout_.n_trainable());
  }

  int64_t evaluation_rows() const override { return 64; }
  int64_t pass_bytes() const override { return memory_.bytes() + (frozen_ ? frozen_->bytes() : 0); }
  int64_t compared_rows() const override { return file_.compared; }
  std::vector<WholeNumbers> whole_numbers() const override { return whole_numbers_; }
  std::string why_no_hessian() const override { return "and a graph has first derivatives alone"; }

  FrozenPart* freeze(const FreezeCase& c) override {
    const c10::InferenceMode no_gradients;
    frozen_ = FrozenGraph::find({.passes = passes_,
                                 .slots = inputs_,
                                 .freeze = c,
                                 .begin = [this, row = c.row](const float* samples, int64_t rows,
                                                              GraphPasses::Values& values) {
                                   begin(row, {.features = samples, .rows = rows}, true, values);
                                 }});
    return frozen_.get();
  }
  void take_frozen(FrozenValues& values, const FrozenPart&) override { given_ = &values; }

 protected:
  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    const c10::InferenceMode no_gradients;
    const PassMemory::Use memory(memory_);
    const bool is_cut = given_ != nullptr;
    if (is_cut) {  // before begin(): a block may be computed by passes of its own
      frozen_values_.resize(to_index(batch.rows * frozen_->values()));
      given_->gather(batch, frozen_values_.data());
    }
    begin(row, batch, noise != nullptr, values_);
    const GraphSchedule* rest = nullptr;
    if (is_cut) {
      frozen_->give(noise != nullptr,
                    at::from_blob(frozen_values_.data(), {batch.rows, frozen_->values()}), values_);
      rest = &frozen_->rest(noise != nullptr);
    }
    if (noise != nullptr && passes_.draws()) masks_.start(noise->next());
    const at::Tensor output = passes_.forward(values_, noise != nullptr ? &masks_ : nullptr, rest);
    const float* const values = output.data_ptr<float>();
    logits_.assign(values, values + output.numel());
    if (noise != nullptr) take_buffers();
    if (representation_width() > 0) {
      const at::Tensor& seen = passes_.representation();
      represented_.assign(seen.data_ptr<float>(), seen.data_ptr<float>() + seen.numel());
    }
    return logits_.data();
  }

  void backward(const float*, const Batch& batch, const GradientTarget& target) override {
    const c10::InferenceMode no_gradients;
    const PassMemory::Use memory(memory_);
    const at::Tensor delta =
        at::from_blob(logits_.data(), passes_.output_shape(batch.rows), at::kFloat);
    at::Tensor of_representation;
    if (representation_delta() != nullptr) {
      of_representation = at::from_blob(const_cast<float*>(representation_delta()),
                                        passes_.representation_shape(batch.rows), at::kFloat);
    }
    passes_.backward(
        values_, delta, schedule_for(target),
        [&](int64_t i, const at::Tensor& gradient) {
          const ParameterSlot& slot = slot_of(i);
          target.add(slot.offset, gradient.contiguous().data_ptr<float>(), slot.size);
        },
        of_representation,
        rounds_ || target.step == nullptr ? nullptr
                                          : taking_factors(*target.step, layout_.slots()));
    add_zeros(target);
  }

  const float* representation() override { return represented_.data(); }

 private:
  void read_narrow(int64_t offset, const uint16_t* values) override {
    const int64_t value = value_at(offset);
    passes_.read_narrow(value);
    narrow_.resize(inputs_.size());
    narrow_[to_index(value)] = values;
    bound_row_ = nullptr;
  }

  bool can_split(int64_t offset) const override { return passes_.can_split(value_at(offset)); }

  void split(int64_t offset, int64_t rank, float scale, const AdapterFactors& factors) override {
    const int64_t value = value_at(offset);
    passes_.split(value);
    split_.push_back({value, rank, scale, &factors});
  }

  // The input that lies at a place of the row.
  int64_t value_at(int64_t offset) const {
    const auto is_there = [&](int64_t slot) {
      return slot != kNoValue && layout_.slots()[to_index(slot)].offset == offset;
    };
    return std::ranges::find_if(inputs_, is_there) - inputs_.begin();
  }

  void check_shapes(const std::vector<int64_t>& sample_shape) const {
    const auto sides = [](std::vector<int64_t> shape) {
      std::erase(shape, 1);
      return shape;
    };
    if (sides(file_.sample) != sides(sample_shape)) {
      throw InvalidArgument(
          fmt::format("the graph takes samples [{}], and the data has [{}]",
                      fmt::join(file_.sample, ", "), fmt::join(sample_shape, ", ")),
          passes_.path(), "export it with a sample of the data's shape, or give data.shape");
    }
    std::vector<int64_t> expected = {loss().outputs()};
    if (loss().positions() > 1) expected.insert(expected.begin(), loss().positions());
    if (file_.output == expected) return;
    throw InvalidArgument(fmt::format("the graph's output for a sample is [{}], not [{}]",
                                      fmt::join(file_.output, ", "), fmt::join(expected, ", ")),
                          passes_.path(),
                          loss().positions() > 1
                              ? "each position of a sample has a class here: its logits"
                              : "one logit a class (one in all for binary-logistic and "
                                "regression)");
  }

  void keep_start(const StoredTensor& stored) {
    const std::size_t first = start_.size();
    start_.resize(first + stored.bytes.size() / sizeof(float));
    if (stored.bytes.empty()) return;
    std::memcpy(start_.data() + first, stored.bytes.data(), stored.bytes.size());
  }

  // Trained parameters, float buffers, frozen parameters: inputs_ notes where each lies.
  void lay_out() {
    inputs_.resize(to_index(file_.x()), kNoValue);
    bound_.resize(inputs_.size());
    for (const bool trains : {true, false}) {
      if (!trains) add_buffers();
      for (std::size_t i = 0; i < file_.parameters.size(); ++i) {
        const GraphParameter& parameter = file_.parameters[i];
        if (parameter.trains != trains) continue;
        inputs_[i] = std::ssize(layout_.slots());
        if (trains) {
          layout_.add(parameter.name, parameter.tensor->shape, 1);
        } else {
          layout_.add_frozen(parameter.name, parameter.tensor->shape);
        }
        keep_start(*parameter.tensor);
        for (const std::string& also : parameter.also) layout_.tie(parameter.name, also);
        for (const auto& [called, use] : parameter.uses) layout_.mark(called, use);
      }
    }
  }

  void add_buffers() {
    for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
      const GraphBuffer& buffer = file_.buffers[i];
      const std::size_t value = to_index(file_.first_buffer()) + i;
      if (buffer.is_float()) {
        inputs_[value] = std::ssize(layout_.slots());
        layout_.add_buffer(buffer.name, buffer.tensor->shape);
        keep_start(*buffer.tensor);
        continue;
      }
      const at::Tensor& tensor = passes_.fixed(static_cast<int64_t>(value)).toTensor();
      const auto* const values = tensor.data_ptr<int64_t>();
      layout_.carry({buffer.name, buffer.tensor->shape, {values, values + tensor.numel()}});
    }
    new_buffers_.assign(start_.begin() + layout_.n_trainable(), start_.end());
  }

  at::Tensor on_row(const float* row, std::size_t input) const {
    const ParameterSlot& slot = layout_.slots()[to_index(inputs_[input])];
    if (input < narrow_.size() && narrow_[input] != nullptr) {
      return at::from_blob(const_cast<uint16_t*>(narrow_[input]), slot.shape, at::kBFloat16);
    }
    return at::from_blob(const_cast<float*>(row) + slot.offset, slot.shape, at::kFloat);
  }

  // The inputs on the row's memory: a write to the row is seen by the next pass.
  void begin(const float* row, const Batch& batch, bool training, GraphPasses::Values& values) {
    if (row != bound_row_) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i] != kNoValue) bound_[i] = on_row(row, i);
      }
      bound_row_ = row;
    }
    for (const Split& matrix : split_) passes_.set_factors(matrix.value, matrix_of(matrix));
    if (batch.rows > most_rows_) {
      memory_.trim();
      most_rows_ = batch.rows;
    }
    std::vector<int64_t> shape = {batch.rows};
    shape.insert(shape.end(), file_.sample.begin(), file_.sample.end());
    passes_.begin(training, at::from_blob(const_cast<float*>(batch.features), shape, at::kFloat),
                  values);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i] != kNoValue) values[i] = bound_[i];
    }
  }

  // A matrix that is never formed, and where its factors are noted.
  struct Split {
    int64_t value, rank;
    float scale;
    const AdapterFactors* factors;
  };

  SplitMatrix matrix_of(const Split& split) const {
    const auto& shape = layout_.slots()[to_index(inputs_[to_index(split.value)])].shape;
    const auto view = [](const float* values, int64_t rows, int64_t columns) {
      return at::from_blob(const_cast<float*>(values), {rows, columns}, at::kFloat);
    };
    return {.a = view(split.factors->a, split.rank, shape[1]),
            .b = view(split.factors->b, shape[0], split.rank),
            .scale = static_cast<double>(split.scale)};
  }

  void take_buffers() {
    float* out = new_buffers_.data();
    for (std::size_t i = 0; i < passes_.float_buffers(); ++i) {
      const at::Tensor moved = passes_.moved_buffer(values_, i);
      out = std::copy_n(moved.data_ptr<float>(), moved.numel(), out);
    }
  }

  const ParameterSlot& slot_of(int64_t gradient) const {
    return layout_.slots()[to_index(gradient)];  // the first slots are those that train
  }

  // Parameters that the output does not depend on, or that are frozen in a pass over a rest.
  void add_zeros(const GradientTarget& target) const {
    std::vector<float> zeros;
    for (int64_t g = 0; g < std::ssize(file_.training.gradients); ++g) {
      const ParameterSlot& slot = slot_of(g);
      const bool is_found = file_.training.gradients[to_index(g)] != kNoValue &&
                            (given_ == nullptr || frozen_->moves(g));
      if (is_found || !target.wants(slot.offset)) continue;
      zeros.resize(std::max(zeros.size(), to_index(slot.size)), 0.0F);
      target.add(slot.offset, zeros.data(), slot.size);
    }
  }

  const GraphSchedule& schedule_for(const GradientTarget& target) {
    std::vector<char> wanted(file_.training.gradients.size());
    for (std::size_t g = 0; g < wanted.size(); ++g) {
      wanted[g] = target.wants(slot_of(static_cast<int64_t>(g)).offset) ? 1 : 0;
    }
    return given_ != nullptr ? frozen_->schedule_of(wanted) : passes_.schedule_of(wanted);
  }

  // A pass on zeros, before the first round.
  void try_out(int64_t rows, bool training) {
    const std::vector<float> zeros(to_index(rows * size_of(file_.sample)));
    const Batch batch{.features = zeros.data(), .rows = rows};
    RandomStream noise(0, Purpose::kDropout);
    try {
      forward(start_.data(), batch, training ? &noise : nullptr);
      if (!training) return;
      std::vector<float> gradient(to_index(layout_.n_trainable()));
      backward(start_.data(), batch, {{.row = gradient.data()}});
    } catch (const std::exception& error) {
      throw InvalidArgument(first_line(error), "", kExporter);
    }
  }

  GraphPasses passes_;
  bool rounds_;  // factors of products, to bfloat16
  const GraphFile& file_;
  std::vector<WholeNumbers> whole_numbers_;
  std::vector<int64_t> inputs_;          // slot of each input; kNoValue: a constant, or integers
  GraphPasses::Values bound_;            // inputs with a slot, on bound_row_
  GraphPasses::Values values_;           // of the pass that runs
  std::vector<const uint16_t*> narrow_;  // of inputs; null: in the row
  std::vector<Split> split_;
  PassMemory memory_;
  HostMasks masks_;
  std::unique_ptr<FrozenGraph> frozen_;
  FrozenValues* given_ = nullptr;  // null: passes are not cut
  AlignedFloats frozen_values_;    // of its samples
  const float* bound_row_ = nullptr;
  std::vector<float> start_;        // [P] the file's values
  std::vector<float> logits_;       // [rows, output] of forward(), then their deltas
  std::vector<float> represented_;  // [rows, representation] of forward()
  std::vector<float> new_buffers_;  // that training's last pass has made
  int64_t most_rows_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_graph(const ModelCase& c) {
  if (c.options.init == ModelInit::kUniform) {
    throw InvalidArgument("a graph starts from its file", "model.init",
                          "auto (the file's values) or zeros");
  }
  return std::make_unique<GraphNetwork>(c);
}

}  // namespace hanse
