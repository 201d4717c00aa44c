// Networks whose graph LibTorch's autograd keeps.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "hanse/model/options.hpp"
#include "layers/group_norm.hpp"
#include "network_model.hpp"

namespace hanse {

// The graph leads from the samples to the logits; the loss is ours (loss.hpp), in float32. Cost of
// a training step beyond the graph's: one pass over the row.
class GraphModel : public NetworkModel {
 protected:
  GraphModel(LossPtr loss, Precision precision)
      : NetworkModel(std::move(loss)), precision_(precision) {}

  // By LibTorch's autocast.
  bool is_bfloat16() const { return precision_ == Precision::kBfloat16; }

  // The logits [rows, outputs], in any strides. `leaves` are the layout's tensors, in their order;
  // dropout is drawn from `noise`, null: evaluation.
  // `representation` gets what the last layer reads, where there is such a layer.
  virtual at::Tensor graph(const std::vector<at::Tensor>& leaves, const Batch& batch,
                           RandomStream* noise, at::Tensor& representation) = 0;

 private:
  const float* representation() override;

  // The leaves on the row's memory: a write to the row is seen by the next forward pass. The writes
  // go through plain pointers and between two graphs: autograd's version counters never see them.
  const std::vector<at::Tensor>& leaves(const float* row);

  float* forward(const float* row, const Batch& batch, RandomStream* noise) override;
  void backward(const float* row, const Batch& batch, const GradientTarget& target) override;

  Precision precision_;
  std::vector<at::Tensor> leaves_;  // on leaves_row_
  const float* leaves_row_ = nullptr;
  at::Tensor output_;          // of the graph, for backward()
  at::Tensor logits_;          // a copy of them
  at::Tensor representation_;  // of the graph, and a copy of its numbers
  at::Tensor represented_;
};

// A tensor of the layout on the memory of a row; from_blob knows no const.
inline at::Tensor slot_view(const float* row, const ParameterSlot& slot) {
  return at::from_blob(const_cast<float*>(row) + slot.offset, slot.shape, at::kFloat);
}

// x with a share of its values 0 and the others scaled by 1 / (1 - share); x itself when the share
// is 0 or `noise` null (see draw_mask).
at::Tensor dropout(const at::Tensor& x, double share, RandomStream* noise);

}  // namespace hanse
