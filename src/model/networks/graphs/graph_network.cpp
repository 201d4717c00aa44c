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
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "makers.hpp"
#include "network_model.hpp"
#include "networks/graphs/graph_schedule.hpp"
#include "networks/graphs/pass_memory.hpp"
#include "networks/scripts/script.hpp"

namespace hanse {

namespace {

constexpr const char* kExporter = "hanse.export(module, sample, path) in Python writes one";

std::string type_of(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

// A tensor of a file, in memory of its own.
at::Tensor loaded(const StoredTensor& stored) {
  const at::ScalarType type = stored.type == "F32"   ? at::kFloat
                              : stored.type == "I64" ? at::kLong
                                                     : at::kBool;
  at::Tensor tensor = at::empty(stored.shape, type);
  if (type == at::kBool) {  // any byte but 0 is true
    std::transform(stored.bytes.begin(), stored.bytes.end(), tensor.data_ptr<bool>(),
                   [](char byte) { return byte != 0; });
  } else if (!stored.bytes.empty()) {
    std::memcpy(tensor.data_ptr(), stored.bytes.data(), stored.bytes.size());
  }
  return tensor;
}

class GraphNetwork final : public NetworkModel {
 public:
  GraphNetwork(const std::string& path, const std::vector<int64_t>& sample_shape, LossPtr loss)
      : NetworkModel(std::move(loss)),
        path_(path),
        file_(read_graph_file(path)),
        evaluation_(file_.evaluation, path),
        training_(file_.training, path) {
    check_shapes(sample_shape);
    warn_of_activation(last_activation(file_.evaluation), this->loss(), path_);
    whole_numbers_ = whole_numbers_of(integer_parts(file_), path_);
    lay_out();
    const std::vector<char> all(file_.training.gradients.size(), 1);
    evaluates_ = graph_schedule(evaluation_, {}, {}, path_);
    trains_ = graph_schedule(training_, trained_, all, path_);
    steps_ = {all, trains_};
    for (const int64_t rows : {2, 3}) {
      try_out(rows, false);
      try_out(rows, true);
    }
    file_.tensors.reset();  // the file's bytes
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
    std::copy(new_buffers_.begin(), new_buffers_.end(), row.begin() + layout_.n_trainable());
  }

  int64_t evaluation_rows() const override { return 64; }
  int64_t pass_bytes() const override { return memory_.bytes(); }
  int64_t compared_rows() const override { return file_.compared; }
  std::vector<WholeNumbers> whole_numbers() const override { return whole_numbers_; }
  std::string why_no_hessian() const override { return "and a graph has first derivatives alone"; }

 protected:
  float* forward(const float* row, const Batch& batch, RandomStream* noise) override {
    const bool training = noise != nullptr;
    GraphProgram& program = training ? training_ : evaluation_;
    const c10::InferenceMode no_gradients;
    const PassMemory::Use memory(memory_);
    begin(program, row, batch);
    try {
      if (training && program.draws()) masks_ = RandomStream(noise->next(), Purpose::kDropout);
      for (const GraphSchedule::Step& step : (training ? trains_ : evaluates_).forward) {
        run(program, step);
      }
      take_output(program, batch.rows);
      if (training) take_buffers();
    } catch (const std::exception& error) {
      fail(error, batch.rows);
    }
    if (!training) values_.clear();
    return logits_.data();
  }

  void backward(const float*, const Batch& batch, const GradientTarget& target) override {
    const c10::InferenceMode no_gradients;
    const PassMemory::Use memory(memory_);
    const GraphSchedule& schedule = schedule_for(target);
    values_[to_index(file_.delta())] = delta(batch.rows);
    try {
      for (const int64_t gradient : schedule.apply_first) apply(gradient, target);
      for (const int64_t value : schedule.not_kept) values_[to_index(value)] = {};
      for (const GraphSchedule::Step& step : schedule.backward) {
        run_node(training_, step.node);
        for (const int64_t gradient : step.apply) apply(gradient, target);
        for (const int64_t value : step.release) values_[to_index(value)] = {};
      }
    } catch (const IoError& error) {
      fail(error, batch.rows);
    } catch (const Error&) {  // the target's own
      throw;
    } catch (const std::exception& error) {
      fail(error, batch.rows);
    }
    values_.clear();
    add_zeros(target);
  }

 private:
  void check_shapes(const std::vector<int64_t>& sample_shape) const {
    const auto sides = [](std::vector<int64_t> shape) {
      std::erase(shape, 1);
      return shape;
    };
    if (sides(file_.sample) != sides(sample_shape)) {
      throw InvalidArgument(
          fmt::format("the graph takes samples [{}], and the data has [{}]",
                      fmt::join(file_.sample, ", "), fmt::join(sample_shape, ", ")),
          path_, "export it with a sample of the data's shape, or give data.shape");
    }
    std::vector<int64_t> expected = {loss().outputs()};
    if (loss().positions() > 1) expected.insert(expected.begin(), loss().positions());
    if (file_.output == expected) return;
    throw InvalidArgument(fmt::format("the graph's output for a sample is [{}], not [{}]",
                                      fmt::join(file_.output, ", "), fmt::join(expected, ", ")),
                          path_,
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
    fixed_.resize(inputs_.size());
    for (const bool trains : {true, false}) {
      if (!trains) add_buffers();
      for (std::size_t i = 0; i < file_.parameters.size(); ++i) {
        const GraphParameter& parameter = file_.parameters[i];
        if (parameter.trains != trains) continue;
        inputs_[i] = std::ssize(layout_.slots());
        if (trains) {
          layout_.add(parameter.name, parameter.tensor->shape, 1);
          trained_.push_back(static_cast<int64_t>(i));
        } else {
          layout_.add_frozen(parameter.name, parameter.tensor->shape);
        }
        keep_start(*parameter.tensor);
        for (const std::string& also : parameter.also) layout_.tie(parameter.name, also);
      }
    }
    for (std::size_t i = 0; i < file_.constants.size(); ++i) {
      fixed_[to_index(file_.first_constant()) + i] = loaded(*file_.constants[i]);
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
      const at::Tensor tensor = loaded(*buffer.tensor);
      const auto* const values = tensor.data_ptr<int64_t>();
      layout_.carry({buffer.name, buffer.tensor->shape, {values, values + tensor.numel()}});
      fixed_[value] = tensor;
    }
    new_buffers_.assign(start_.begin() + layout_.n_trainable(), start_.end());
  }

  // The inputs on the row's memory: a write to the row is seen by the next pass.
  void begin(GraphProgram& program, const float* row, const Batch& batch) {
    if (row != bound_row_) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i] == kNoValue) continue;
        const ParameterSlot& slot = layout_.slots()[to_index(inputs_[i])];
        fixed_[i] = at::from_blob(const_cast<float*>(row) + slot.offset, slot.shape, at::kFloat);
      }
      bound_row_ = row;
    }
    if (batch.rows > most_rows_) {
      memory_.trim();
      most_rows_ = batch.rows;
    }
    program.bind(batch.rows);
    values_.clear();
    values_.resize(to_index(program.values()));
    std::copy(fixed_.begin(), fixed_.end(), values_.begin());
    std::vector<int64_t> shape = {batch.rows};
    shape.insert(shape.end(), file_.sample.begin(), file_.sample.end());
    values_[to_index(file_.x())] =
        at::from_blob(const_cast<float*>(batch.features), shape, at::kFloat);
  }

  void run_node(GraphProgram& program, int64_t node) {
    failing_ = &program.node(node);
    program.run(node, values_, &masks_);
  }

  void run(GraphProgram& program, const GraphSchedule::Step& step) {
    run_node(program, step.node);
    for (const int64_t value : step.release) values_[to_index(value)] = {};
  }

  [[noreturn]] void fail(const std::exception& error, int64_t rows) {
    values_.clear();
    throw Error(fmt::format("the graph fails on a batch of {} at {}: {}", rows,
                            failing_ != nullptr ? failing_->label() : "its start", one_line(error)),
                path_, "");
  }

  // A result of the graph. Throws std::invalid_argument: it has another type or shape.
  const at::Tensor& result(int64_t value, const std::vector<int64_t>& shape,
                           const char* what) const {
    const at::Tensor& tensor = values_[to_index(value)].toTensor();
    if (tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.sizes() == shape) {
      return tensor;
    }
    throw std::invalid_argument(
        !tensor.defined() ? fmt::format("{} is not computed", what)
                          : fmt::format("{} is {} [{}], not Float [{}]", what, type_of(tensor),
                                        fmt::join(tensor.sizes(), ", "), fmt::join(shape, ", ")));
  }

  std::vector<int64_t> output_shape(int64_t rows) const {
    std::vector<int64_t> shape = {rows};
    shape.insert(shape.end(), file_.output.begin(), file_.output.end());
    return shape;
  }

  void take_output(const GraphProgram& program, int64_t rows) {
    const at::Tensor output =
        result(program.graph().output, output_shape(rows), "its output").contiguous();
    const float* const values = output.data_ptr<float>();
    logits_.assign(values, values + output.numel());
  }

  at::Tensor delta(int64_t rows) {
    return at::from_blob(logits_.data(), output_shape(rows), at::kFloat);
  }

  void take_buffers() {
    float* out = new_buffers_.data();
    for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
      const std::size_t input = to_index(file_.first_buffer()) + i;
      if (inputs_[input] == kNoValue) continue;  // integers stay
      const ParameterSlot& slot = layout_.slots()[to_index(inputs_[input])];
      const int64_t value = file_.training.buffers[i];
      const at::Tensor moved =
          result(value == kNoValue ? static_cast<int64_t>(input) : value, slot.shape, "a buffer")
              .contiguous();
      out = std::copy_n(moved.data_ptr<float>(), slot.size, out);
    }
  }

  const ParameterSlot& slot_of(int64_t gradient) const {
    return layout_.slots()[to_index(gradient)];  // the first slots are those that train
  }

  void apply(int64_t gradient, const GradientTarget& target) {
    const ParameterSlot& slot = slot_of(gradient);
    const at::Tensor values =
        result(file_.training.gradients[to_index(gradient)], slot.shape, slot.name.c_str())
            .contiguous();
    target.add(slot.offset, values.data_ptr<float>(), slot.size);
  }

  // Parameters that the output does not depend on.
  void add_zeros(const GradientTarget& target) const {
    std::vector<float> zeros;
    for (int64_t g = 0; g < std::ssize(file_.training.gradients); ++g) {
      const ParameterSlot& slot = slot_of(g);
      if (file_.training.gradients[to_index(g)] != kNoValue || !target.wants(slot.offset)) continue;
      zeros.resize(std::max(zeros.size(), to_index(slot.size)), 0.0F);
      target.add(slot.offset, zeros.data(), slot.size);
    }
  }

  const GraphSchedule& schedule_for(const GradientTarget& target) {
    std::vector<char> wanted(file_.training.gradients.size());
    for (std::size_t g = 0; g < wanted.size(); ++g) {
      wanted[g] = target.wants(slot_of(static_cast<int64_t>(g)).offset) ? 1 : 0;
    }
    if (wanted != steps_.first) {
      steps_ = {wanted, graph_schedule(training_, trained_, wanted, path_)};
    }
    return steps_.second;
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

  std::string path_;
  GraphFile file_;
  std::vector<WholeNumbers> whole_numbers_;
  GraphProgram evaluation_, training_;
  GraphSchedule evaluates_, trains_;
  std::pair<std::vector<char>, GraphSchedule> steps_;  // the last that were wanted
  std::vector<int64_t> trained_;                       // values of parameters that train
  std::vector<int64_t> inputs_;      // slot of each input; kNoValue: a constant, or integers
  std::vector<c10::IValue> fixed_;   // inputs but x and delta; those with a slot on bound_row_
  std::vector<c10::IValue> values_;  // of the pass that runs
  PassMemory memory_;
  const float* bound_row_ = nullptr;
  const GraphNode* failing_ = nullptr;
  RandomStream masks_{0, Purpose::kDropout};
  std::vector<float> start_;        // [P] the file's values
  std::vector<float> logits_;       // [rows, output] of forward(), then their deltas
  std::vector<float> new_buffers_;  // that training's last pass has made
  int64_t most_rows_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_graph(const ModelCase& c) {
  if (c.options.init == ModelInit::kUniform) {
    throw InvalidArgument("a graph starts from its file", "model.init",
                          "auto (the file's values) or zeros");
  }
  return std::make_unique<GraphNetwork>(c.options.path, c.sample_shape, c.loss);
}

}  // namespace hanse
