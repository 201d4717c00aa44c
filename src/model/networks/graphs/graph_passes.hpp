// A graph of a file, loaded on a device, and its passes over batches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "hanse/base/index.hpp"
#include "networks/graphs/graph_schedule.hpp"
#include "networks/graphs/graph_split.hpp"

namespace hanse {

// Not for several threads at once.
class GraphPasses {
 public:
  // The values of one pass, by their numbers; the caller sets those of parameters and float
  // buffers, which begin() leaves undefined.
  using Values = std::vector<c10::IValue>;
  // Gets the gradient of parameter trained()[i], in any strides.
  using Apply = std::function<void(int64_t i, const at::Tensor& gradient)>;
  // Gets that of a split matrix in factors, which is deltas^T inputs; false: compute it.
  using Take = std::function<bool(int64_t i, const at::Tensor& deltas, const at::Tensor& inputs)>;

  // Constants and integer buffers lie on the device. `narrow`: as GraphProgram. Throws
  // InvalidArgument, which names the file, as read_graph_file(), GraphProgram and graph_schedule()
  // do.
  GraphPasses(const std::string& path, at::Device device, bool narrow);
  GraphPasses(const GraphPasses&) = delete;

  const GraphFile& file() const { return file_; }
  const std::string& path() const { return path_; }
  // The parameters that train, in the file's order: their values.
  std::span<const int64_t> trained() const { return trained_; }
  // The tensors that a caller gives, in a layout's order: those that train, float buffers, frozen
  // parameters. Their values, and their shapes.
  std::span<const int64_t> leaves() const { return leaves_; }
  const std::vector<int64_t>& leaf_shape(std::size_t i) const { return shapes_[i]; }
  std::size_t float_buffers() const { return float_buffers_.size(); }
  const GraphProgram& program(bool training) const { return training ? training_ : evaluation_; }
  // Integer buffers and constants, as begin() sets them; undefined: the caller's.
  const c10::IValue& fixed(int64_t value) const { return fixed_[to_index(value)]; }
  // Frees the file's bytes: what the file's parameters point to.
  void drop_file() { file_.tensors.reset(); }

  // From now on the caller gives this parameter as bfloat16 (graph_widening.hpp).
  void read_narrow(int64_t value) { narrow_[to_index(value)] = 1; }
  // Can this parameter be W_0 of a SplitMatrix?
  bool can_split(int64_t value) const;
  // From now on it is; and the factors of the next passes. REQUIRES: can_split().
  void split(int64_t value);
  void set_factors(int64_t value, SplitMatrix matrix) {
    split_.matrices.at(value) = std::move(matrix);
  }

  // The inputs of a pass over x [n, sample] on the device.
  void begin(bool training, const at::Tensor& x, Values& values);
  // The output [n, output], contiguous. With `masks` it is training: they draw until backward()
  // has ended, and the values stay that it reads; without them none stay. REQUIRES: begin() of the
  // same. Throws Error, which names the operator at fault. `rest`: what is left of the pass where
  // the caller has given some values; null: all.
  at::Tensor forward(Values& values, MaskSource* masks, const GraphSchedule* rest = nullptr);
  // Some steps of training, which leave what the others read. REQUIRES: begin() of training. Throws
  // as forward().
  void run(std::span<const GraphSchedule::Step> steps, Values& values);
  bool draws() const { return training_.draws(); }
  // The representation [n, representation] of the last forward(), contiguous; undefined: not told.
  const at::Tensor& representation() const { return representation_; }
  // The value of float buffer i that training's forward() has made, contiguous. Throws as
  // forward().
  at::Tensor moved_buffer(Values& values, std::size_t i) const;
  // Calls `apply` for each wanted gradient on the way back from delta [n, output], the loss's
  // gradient with respect to the output, but for parameters that the output does not depend on. A
  // parameter's memory may change once its gradient is told. Frees all values. `of_representation`
  // [n, representation] is the gradient with respect to that; undefined: 0.
  void backward(Values& values, const at::Tensor& delta, const GraphSchedule& schedule,
                const Apply& apply, const at::Tensor& of_representation = {},
                const Take& take = nullptr);
  // Its steps where these gradients are wanted; they hold until the next call.
  const GraphSchedule& schedule_of(const std::vector<char>& wanted);

  std::vector<int64_t> output_shape(int64_t rows) const;
  std::vector<int64_t> representation_shape(int64_t rows) const;

 private:
  at::Tensor result(const Values& values, int64_t value, const std::vector<int64_t>& shape,
                    const char* what) const;
  GraphSchedule schedule(const std::vector<char>& wanted) const;
  void lay_out();
  void run_node(GraphProgram& program, int64_t node, Values& values);
  void apply_one(const Values& values, int64_t gradient, const Apply& apply) const;
  [[noreturn]] void fail(const std::exception& error, Values& values) const;

  std::string path_;
  GraphFile file_;
  at::Device device_;
  GraphProgram evaluation_, training_;
  std::vector<int64_t> trained_;
  std::vector<int64_t> leaves_;
  std::vector<int64_t> float_buffers_;  // those that are no integers, by their places in the file
  std::vector<std::vector<int64_t>> shapes_;  // of the leaves
  GraphSchedule evaluates_, trains_;
  std::pair<std::vector<char>, GraphSchedule> chosen_;  // the last of schedule_of()
  Values fixed_;                                        // inputs but x and delta
  at::Tensor representation_;                           // of the last pass
  std::vector<char> narrow_;                            // [inputs of training]
  struct {
    std::map<int64_t, SplitMatrix> matrices;  // by their parameters
    SplitUses evaluation, training;           // of these
    std::map<int64_t, int64_t> gradients;     // of these in factors: their numbers by their nodes
  } split_;
  const GraphNode* failing_ = nullptr;
  MaskSource* masks_ = nullptr;  // of the pass that runs
  int64_t rows_ = 0;             // of the pass that runs
};

}  // namespace hanse
