#include "reference.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "graph_reference.hpp"

namespace hanse {

namespace {

struct Stage {
  int64_t padding;
  bool pool;
};

std::vector<Stage> stages(const std::string& kind, const std::vector<int64_t>& shape) {
  if (kind == "cnn-leaf" || kind == "cnn-mcmahan") return {{2, true}, {2, true}};
  if (kind == "cnn-byzfl") return {{0, true}, {0, true}};
  if (kind == "cnn-cifar") return {{0, false}, {0, true}};
  if (kind == "lenet") return {{shape[1] < 32 || shape[2] < 32 ? 2 : 0, true}, {0, true}};
  return {};
}

at::Tensor stack_logits(const std::string& kind, const std::vector<int64_t>& shape,
                        const std::vector<at::Tensor>& leaves, at::Tensor x) {
  std::size_t next = 0;
  for (const Stage& stage : stages(kind, shape)) {
    x = at::relu(at::conv2d(x, leaves[next], leaves[next + 1], 1, stage.padding));
    if (stage.pool) x = at::max_pool2d(x, 2);
    next += 2;
  }
  x = x.flatten(1);
  for (; next + 2 < leaves.size(); next += 2) {
    x = at::relu(at::linear(x, leaves[next], leaves[next + 1]));
  }
  return at::linear(x, leaves[next], leaves[next + 1]);
}

at::Tensor logits(const std::string& kind, const std::vector<int64_t>& shape,
                  const std::vector<at::Tensor>& leaves, const at::Tensor& x, int64_t groups) {
  if (kind == "lstm") return lstm_logits(leaves, x);
  if (kind == "transformer") return transformer_logits(leaves, x);
  if (kind == "resnet18") return resnet_logits(leaves, x, groups);
  return stack_logits(kind, shape, leaves, x);
}

at::Tensor mean_loss(const std::string& loss, const at::Tensor& z, const Batch& batch) {
  if (loss == "squared-error") {
    const at::Tensor y = at::from_blob(const_cast<float*>(batch.targets), {batch.rows}, at::kFloat);
    return (z.flatten() - y.to(at::kDouble)).pow(2).mean() / 2;
  }
  const at::Tensor y = at::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, at::kInt);
  if (loss == "cross-entropy") return at::cross_entropy_loss(z, y.to(at::kLong));
  return at::binary_cross_entropy_with_logits(z.flatten(), y.to(at::kDouble));
}

double count_correct(const std::string& loss, const at::Tensor& z, const Batch& batch) {
  if (loss == "squared-error") return 0;
  const at::Tensor y = at::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, at::kInt);
  const at::Tensor guess = loss == "cross-entropy" ? z.argmax(1) : z.flatten().gt(0).to(at::kLong);
  return guess.eq(y.to(at::kLong)).sum().item<double>();
}

}  // namespace

Reference reference(const std::string& kind, const std::string& loss, const Model& model,
                    const std::vector<int64_t>& sample_shape, std::span<const float> row,
                    const Batch& batch, int64_t groups) {
  std::vector<at::Tensor> leaves;
  for (const ParameterSlot& slot : model.layout().slots()) {
    leaves.push_back(
        at::from_blob(const_cast<float*>(row.data()) + slot.offset, slot.shape, at::kFloat)
            .to(at::kDouble)
            .requires_grad_());
  }
  std::vector<int64_t> shape = {batch.rows};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  const at::Tensor x = at::from_blob(const_cast<float*>(batch.features), shape, at::kFloat);
  const at::Tensor z = logits(kind, sample_shape, leaves, x.to(at::kDouble), groups);
  const at::Tensor mean = mean_loss(loss, z, batch);

  Reference result;
  result.loss = mean.item<double>();
  result.correct = count_correct(loss, z.detach(), batch);
  for (const at::Tensor& g : torch::autograd::grad({mean}, leaves)) {
    const at::Tensor flat = g.to(at::kFloat).contiguous();
    const float* data = flat.data_ptr<float>();
    result.gradient.insert(result.gradient.end(), data, data + flat.numel());
  }
  return result;
}

std::vector<float> reference_hessian_vector(const std::string& kind, const std::string& loss,
                                            const Model& model,
                                            const std::vector<int64_t>& sample_shape,
                                            std::span<const float> row, const Batch& batch,
                                            std::span<const float> v) {
  const auto tensors = [&](std::span<const float> values) {
    std::vector<at::Tensor> result;
    for (const ParameterSlot& slot : model.layout().slots()) {
      float* data = const_cast<float*>(values.data()) + slot.offset;
      result.push_back(at::from_blob(data, slot.shape, at::kFloat).to(at::kDouble));
    }
    return result;
  };
  std::vector<at::Tensor> leaves = tensors(row);
  for (at::Tensor& leaf : leaves) leaf.requires_grad_();
  std::vector<int64_t> shape = {batch.rows};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  const at::Tensor x = at::from_blob(const_cast<float*>(batch.features), shape, at::kFloat);
  const at::Tensor mean =
      mean_loss(loss, logits(kind, sample_shape, leaves, x.to(at::kDouble), 2), batch);
  const auto gradients = torch::autograd::grad({mean}, leaves, {}, true, /*create_graph=*/true);
  const auto products =
      torch::autograd::grad(gradients, leaves, tensors(v), false, false, /*allow_unused=*/true);
  std::vector<float> result;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const at::Tensor used = products[i].defined() ? products[i] : at::zeros_like(leaves[i]);
    const at::Tensor flat = used.to(at::kFloat).contiguous();
    const float* data = flat.data_ptr<float>();
    result.insert(result.end(), data, data + flat.numel());
  }
  return result;
}

}  // namespace hanse
