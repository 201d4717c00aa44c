// Networks whose graph LibTorch's autograd keeps.
#pragma once

#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "dense.hpp"
#include "network_model.hpp"

namespace hanse {

// The graph leads from the samples to the logits or, where the network ends in dense layers with
// most of its parameters, to the features in front of them. These layers, the head, are in closed
// form: autograd gets the delta of the features from it, and would write a gradient as large as the
// weights only for the update to read it again. The loss is ours (loss.hpp) in both cases. Cost of
// a training step beyond the graph's: one pass over its part of the row.
class GraphModel : public NetworkModel {
 public:
  // Those with a head.
  int64_t record_product_cost(int64_t rows) const override;
  // Those with a head, when it drops nothing. By autograd of autograd's gradient.
  bool has_hessian() const override { return head_ != nullptr && head_->dropout_free(); }
  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override;

 protected:
  using NetworkModel::NetworkModel;

  // The logits [rows, outputs], in any strides, or the features before their ReLU [rows, ...], in
  // as many values a sample as the head has inputs. `leaves` are the trainable tensors that were
  // added to the layout before add_head(), in their order; dropout is drawn from `noise`, null:
  // evaluation.
  virtual at::Tensor graph(const std::vector<at::Tensor>& leaves, const Batch& batch,
                           RandomStream* noise) = 0;

  // Closes the layout with the head. Called once, at the end of the constructor.
  void add_head(const std::vector<int64_t>& widths, double input_dropout, double hidden_dropout);

  // The leaves on the row's memory: a write to the row is seen by the next forward pass. The writes
  // go through plain pointers and between two graphs: autograd's version counters never see them.
  virtual const std::vector<at::Tensor>& leaves(const float* row);

 private:
  float* forward(const float* row, const Batch& batch, RandomStream* noise) override;
  void backward(const float* row, const Batch& batch, const GradientTarget& target) override;
  // Tensors of the layout in front of the head.
  std::size_t n_leaves() const { return head_ ? before_head_ : layout_.slots().size(); }

  std::unique_ptr<DenseStack> head_;
  std::size_t before_head_ = 0;
  std::vector<at::Tensor> leaves_;  // on leaves_row_
  const float* leaves_row_ = nullptr;
  const std::vector<at::Tensor>* used_ = nullptr;  // by the last forward()
  at::Tensor output_;                              // of the graph, for backward()
  at::Tensor logits_;                              // without a head: a copy of them
};

// Of layer norms and group norms, torch's default.
inline constexpr double kNormEpsilon = 1e-5;

// A tensor of the layout on the memory of a row; from_blob knows no const.
inline at::Tensor slot_view(const float* row, const ParameterSlot& slot) {
  return at::from_blob(const_cast<float*>(row) + slot.offset, slot.shape, at::kFloat);
}

// [rows, channels, height, width] of a batch of {channels, height, width} samples, channels last in
// memory: pooling and convolution are 1.5 to 10 times faster on it. With one channel it is the same
// memory under other strides, but LibTorch chooses by the strides.
at::Tensor image_input(const Batch& batch, const std::vector<int64_t>& sample_shape);

// x with a share of its values 0 and the others scaled by 1 / (1 - share); x itself when the share
// is 0 or `noise` null (see draw_mask).
at::Tensor dropout(const at::Tensor& x, double share, RandomStream* noise);

}  // namespace hanse
