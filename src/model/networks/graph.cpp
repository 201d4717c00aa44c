#include "networks/graph.hpp"

#include <algorithm>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "dropout.hpp"
#include "networks/network_forward.hpp"
#include "networks/tensor_loss.hpp"

namespace hanse {

void GraphModel::add_head(const std::vector<int64_t>& widths, double input_dropout,
                          double hidden_dropout) {
  before_head_ = layout_.slots().size();
  for (std::size_t i = 1; i < widths.size(); ++i) {
    add_layer_work(static_cast<double>(widths[i - 1] * widths[i]));
  }
  head_ = std::make_unique<DenseStack>(
      layout_, widths,
      DenseOptions{
          .rectify_input = true, .input_dropout = input_dropout, .hidden_dropout = hidden_dropout});
}

const std::vector<at::Tensor>& GraphModel::leaves(const float* row) {
  if (row == leaves_row_) return leaves_;
  leaves_.clear();
  for (std::size_t i = 0; i < n_leaves(); ++i) {
    leaves_.push_back(slot_view(row, layout_.slots()[i]).requires_grad_());
  }
  leaves_row_ = row;
  return leaves_;
}

float* GraphModel::forward(const float* row, const Batch& batch, RandomStream* noise) {
  const at::AutoGradMode training(noise != nullptr);
  used_ = &leaves(row);
  const at::Tensor output = graph(*used_, batch, noise);
  if (noise != nullptr) output_ = output;
  if (head_) {  // rows in the order of its weights
    const at::Tensor flat = output.detach().contiguous();
    return head_->forward(row, flat.data_ptr<float>(), batch.rows, noise);
  }
  logits_ = output.detach().clone(at::MemoryFormat::Contiguous);
  return logits_.data_ptr<float>();
}

void GraphModel::backward(const float* row, const Batch&, const GradientTarget& target) {
  const at::Tensor delta =
      head_ ? at::from_blob(head_->backward(row, target), output_.sizes(), at::kFloat)
            : logits_.view(output_.sizes());
  std::vector<at::Tensor> wanted;
  std::vector<const ParameterSlot*> slots;
  for (std::size_t i = 0; i < used_->size(); ++i) {
    const ParameterSlot& slot = layout_.slots()[i];
    if (!target.wants(slot.offset)) continue;
    wanted.push_back((*used_)[i]);
    slots.push_back(&slot);
  }
  if (!wanted.empty()) {
    const auto gradients = torch::autograd::grad({output_}, wanted, {delta}, /*retain_graph=*/false,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const ParameterSlot& slot = *slots[i];
      const at::Tensor used = gradients[i].defined() ? gradients[i] : at::zeros(slot.shape);
      target.add(slot.offset, used.contiguous().data_ptr<float>(), slot.size);
    }
  }
  output_.reset();
}

int64_t GraphModel::record_product_cost(int64_t rows) const {
  if (!head_) return 0;
  int64_t cost = head_->record_product_cost(rows);
  for (std::size_t i = 0; i < n_leaves(); ++i) cost += layout_.slots()[i].size;
  return cost;
}

// Of features and head in one graph.
void GraphModel::hessian_vector(std::span<const float> row, const Batch& batch,
                                std::span<const float> v, std::span<float> out) {
  std::vector<at::Tensor> tensors, directions;
  for (const ParameterSlot& slot : layout_.slots()) {
    tensors.push_back(slot_view(row.data(), slot).requires_grad_());
    directions.push_back(slot_view(v.data(), slot));
  }
  const std::vector<at::Tensor> leaves(tensors.begin(),
                                       tensors.begin() + static_cast<std::ptrdiff_t>(n_leaves()));
  const at::Tensor x = at::relu(graph(leaves, batch, nullptr).flatten(1));
  const at::Tensor logits = dense_layers(std::span(tensors).subspan(n_leaves()), true, x, {});
  const at::Tensor targets =
      batch.labels != nullptr
          ? at::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, at::kInt)
          : at::from_blob(const_cast<float*>(batch.targets), {batch.rows * loss().outputs()},
                          at::kFloat);
  const at::Tensor mean = tensor_losses(loss(), logits, targets, at::Reduction::Mean);
  const auto gradients = torch::autograd::grad({mean}, tensors, {}, /*retain_graph=*/true,
                                               /*create_graph=*/true);
  const auto products =  // H v, the derivative of <gradient, v>
      torch::autograd::grad(gradients, tensors, directions, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  std::fill(out.begin(), out.end(), 0.0F);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (products[i].defined()) slot_view(out.data(), layout_.slots()[i]).copy_(products[i]);
  }
}

at::Tensor image_input(const Batch& batch, const std::vector<int64_t>& sample_shape) {
  const int64_t c = sample_shape[0], h = sample_shape[1], w = sample_shape[2];
  float* data = const_cast<float*>(batch.features);
  if (c == 1) {
    return at::from_blob(data, {batch.rows, c, h, w}, {h * w, 1, w, 1}, at::kFloat);
  }
  return at::from_blob(data, {batch.rows, c, h, w}, at::kFloat)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor dropout(const at::Tensor& x, double share, RandomStream* noise) {
  if (noise == nullptr || share == 0) return x;
  const at::Tensor mask = at::empty(x.sizes(), at::kFloat);
  draw_mask(share, *noise, {mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel())});
  return x * mask;
}

}  // namespace hanse
