#include "networks/graphs/graph_passes.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "networks/graphs/graph_widening.hpp"
#include "networks/scripts/script.hpp"

namespace hanse {

namespace {

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

std::vector<int64_t> values_that_train(const GraphFile& file) {
  std::vector<int64_t> trained;
  for (std::size_t i = 0; i < file.parameters.size(); ++i) {
    if (file.parameters[i].trains) trained.push_back(static_cast<int64_t>(i));
  }
  return trained;
}

// `node` is a product of two matrices.
bool take_factors(const GraphNode& node, int64_t gradient, const GraphPasses::Values& values,
                  const GraphPasses::Take& take) {
  const auto factor = [&](std::size_t i) {
    return values[to_index(node.args[i].number)].toTensor();
  };
  return take(gradient, factor(0).t(), factor(1));
}

}  // namespace

GraphPasses::GraphPasses(const std::string& path, at::Device device, bool narrow)
    : path_(path),
      file_(read_graph_file(path)),
      device_(device),
      evaluation_(file_.evaluation, path, device, narrow),
      training_(file_.training, path, device, narrow),
      trained_(values_that_train(file_)),
      evaluates_(graph_schedule(evaluation_, {}, {}, path)),
      trains_(schedule(std::vector<char>(file_.training.gradients.size(), 1))),
      fixed_(to_index(file_.x())),
      narrow_(to_index(file_.training.inputs), 0) {
  lay_out();
  for (std::size_t i = 0; i < file_.buffers.size(); ++i) {
    if (file_.buffers[i].is_float()) continue;
    fixed_[to_index(file_.first_buffer()) + i] = loaded(*file_.buffers[i].tensor).to(device);
  }
  for (std::size_t i = 0; i < file_.constants.size(); ++i) {
    fixed_[to_index(file_.first_constant()) + i] = loaded(*file_.constants[i]).to(device);
  }
}

GraphSchedule GraphPasses::schedule(const std::vector<char>& wanted) const {
  return graph_schedule(training_, trained_, wanted, path_);
}

const GraphSchedule& GraphPasses::schedule_of(const std::vector<char>& wanted) {
  if (std::ranges::count(wanted, 0) == 0) return trains_;
  if (wanted != chosen_.first) chosen_ = {wanted, schedule(wanted)};
  return chosen_.second;
}

void GraphPasses::lay_out() {
  const auto add = [&](int64_t value, const StoredTensor& tensor) {
    leaves_.push_back(value);
    shapes_.push_back(tensor.shape);
  };
  for (const int64_t value : trained_) add(value, *file_.parameters[to_index(value)].tensor);
  for (int64_t i = 0; i < std::ssize(file_.buffers); ++i) {
    const GraphBuffer& buffer = file_.buffers[to_index(i)];
    if (!buffer.is_float()) continue;
    float_buffers_.push_back(i);
    add(file_.first_buffer() + i, *buffer.tensor);
  }
  for (int64_t i = 0; i < std::ssize(file_.parameters); ++i) {
    const GraphParameter& parameter = file_.parameters[to_index(i)];
    if (!parameter.trains) add(i, *parameter.tensor);
  }
}

std::vector<int64_t> GraphPasses::output_shape(int64_t rows) const {
  std::vector<int64_t> shape = {rows};
  shape.insert(shape.end(), file_.output.begin(), file_.output.end());
  return shape;
}

std::vector<int64_t> GraphPasses::representation_shape(int64_t rows) const {
  std::vector<int64_t> shape = {rows};
  shape.insert(shape.end(), file_.representation.begin(), file_.representation.end());
  return shape;
}

void GraphPasses::begin(bool training, const at::Tensor& x, Values& values) {
  GraphProgram& program = training ? training_ : evaluation_;
  rows_ = x.size(0);
  failing_ = nullptr;
  program.bind(rows_);
  values.clear();
  values.resize(to_index(program.values()));
  std::copy(fixed_.begin(), fixed_.end(), values.begin());
  values[to_index(file_.x())] = x;
}

void GraphPasses::run(std::span<const GraphSchedule::Step> steps, Values& values) {
  try {
    for (const GraphSchedule::Step& step : steps) {
      run_node(training_, step.node, values);
      for (const int64_t value : step.release) values[to_index(value)] = {};
    }
  } catch (const std::exception& error) {
    fail(error, values);
  }
}

at::Tensor GraphPasses::forward(Values& values, MaskSource* masks, const GraphSchedule* rest) {
  const bool training = masks != nullptr;
  GraphProgram& program = training ? training_ : evaluation_;
  try {
    masks_ = masks;
    const GraphSchedule& whole = training ? trains_ : evaluates_;
    for (const GraphSchedule::Step& step : (rest != nullptr ? *rest : whole).forward) {
      run_node(program, step.node, values);
      for (const int64_t value : step.release) values[to_index(value)] = {};
    }
    at::Tensor output =
        result(values, program.graph().output, output_shape(rows_), "its output").contiguous();
    if (program.graph().representation != kNoValue) {
      representation_ = result(values, program.graph().representation, representation_shape(rows_),
                               "its representation")
                            .contiguous();
    }
    if (!training) values.clear();
    return output;
  } catch (const std::exception& error) {
    fail(error, values);
  }
}

at::Tensor GraphPasses::moved_buffer(Values& values, std::size_t i) const {
  const int64_t moved = file_.training.buffers[to_index(float_buffers_[i])];
  const std::size_t leaf = trained_.size() + i;
  try {
    return result(values, moved == kNoValue ? leaves_[leaf] : moved, shapes_[leaf], "a buffer")
        .contiguous();
  } catch (const std::exception& error) {
    fail(error, values);
  }
}

void GraphPasses::backward(Values& values, const at::Tensor& delta, const GraphSchedule& schedule,
                           const Apply& apply, const at::Tensor& of_representation,
                           const Take& take) {
  values[to_index(file_.delta())] = delta;
  if (file_.representation_delta() != kNoValue) {
    values[to_index(file_.representation_delta())] =
        of_representation.defined() ? of_representation
                                    : at::zeros(representation_shape(rows_), delta.options());
  }
  try {
    for (const int64_t gradient : schedule.apply_first) apply_one(values, gradient, apply);
    for (const int64_t value : schedule.not_kept) values[to_index(value)] = {};
    std::set<int64_t> taken;
    for (const GraphSchedule::Step& step : schedule.backward) {
      const auto product = split_.gradients.find(step.node);
      if (product != split_.gradients.end() && take != nullptr &&
          take_factors(training_.node(step.node), product->second, values, take)) {
        taken.insert(product->second);
      } else {
        run_node(training_, step.node, values);
      }
      for (const int64_t gradient : step.apply) {
        if (!taken.contains(gradient)) apply_one(values, gradient, apply);
      }
      for (const int64_t value : step.release) values[to_index(value)] = {};
    }
  } catch (const IoError& error) {
    fail(error, values);
  } catch (const Error&) {  // the target's own
    throw;
  } catch (const std::exception& error) {
    fail(error, values);
  }
  values.clear();
}

void GraphPasses::run_node(GraphProgram& program, int64_t node, Values& values) {
  failing_ = &program.node(node);
  run_widened(program, node, narrow_, values, masks_);
  if (split_.matrices.empty()) return;
  const auto [begin, end] =
      (&program == &training_ ? split_.training : split_.evaluation).equal_range(node);
  for (auto use = begin; use != end; ++use) {
    const at::Tensor& result = values[to_index(program.graph().inputs + node)].toTensor();
    add_split(use->second, split_.matrices.at(use->second.matrix), values, result);
  }
}

bool GraphPasses::can_split(int64_t value) const {
  return split_uses(evaluation_, value) && split_uses(training_, value);
}

void GraphPasses::split(int64_t value) {
  split_.evaluation.merge(*split_uses(evaluation_, value));
  split_.training.merge(*split_uses(training_, value));
  split_.matrices[value] = {};
  const auto place = std::ranges::find(trained_, value);
  if (place == trained_.end()) return;
  if (const auto node = factored_gradient(training_, place - trained_.begin())) {
    split_.gradients[*node] = place - trained_.begin();
  }
}

void GraphPasses::apply_one(const Values& values, int64_t gradient, const Apply& apply) const {
  const GraphParameter& parameter = file_.parameters[to_index(trained_[to_index(gradient)])];
  apply(gradient, result(values, file_.training.gradients[to_index(gradient)],
                         shapes_[to_index(gradient)], parameter.name.c_str()));
}

// A result of the graph. Throws std::invalid_argument: it has another type or shape.
at::Tensor GraphPasses::result(const Values& values, int64_t value,
                               const std::vector<int64_t>& shape, const char* what) const {
  const at::Tensor& tensor = values[to_index(value)].toTensor();
  if (tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.sizes() == shape) {
    return tensor;
  }
  throw std::invalid_argument(
      !tensor.defined() ? fmt::format("{} is not computed", what)
                        : fmt::format("{} is {} [{}], not Float [{}]", what, type_of(tensor),
                                      fmt::join(tensor.sizes(), ", "), fmt::join(shape, ", ")));
}

void GraphPasses::fail(const std::exception& error, Values& values) const {
  values.clear();
  throw Error(fmt::format("the graph fails on a batch of {} at {}: {}", rows_,
                          failing_ != nullptr ? failing_->label() : "its start", one_line(error)),
              path_, "");
}

}  // namespace hanse
