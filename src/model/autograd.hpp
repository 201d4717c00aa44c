// Networks whose features come from LibTorch's autograd and whose dense head is closed form.
//
// The graph is cut in front of the head: autograd gets the delta of the features from it. Most
// parameters of the networks here are in the head, where autograd would write a gradient as large
// as the weights only for the update to read it again.
#pragma once

#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "dense.hpp"
#include "hanse/model/model.hpp"
#include "leaves.hpp"

namespace hanse {

class AutogradModel : public Model {
 public:
  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override;
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override;
  double record_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                         GradientRecord& record) override;
  int64_t record_product_cost(int64_t rows) const override;
  bool has_hessian() const override { return head_->dropout_free(); }
  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override;
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch, float* scores) override;

  // Few enough that the activations stay in the cache: 256 rows take 1.5 times longer a sample.
  int64_t evaluation_rows() const override { return 32; }

 protected:
  // sample_shape = {channels, height, width}
  AutogradModel(const std::vector<int64_t>& sample_shape, LossKind loss);

  // The features before their ReLU, [rows, ...], in as many values a sample as the head has inputs.
  // `leaves` are the tensors that the constructor added to the layout before add_head(), in its
  // order; `input` is [rows, channels, height, width], channels last in memory.
  virtual at::Tensor features(const std::vector<at::Tensor>& leaves,
                              const at::Tensor& input) const = 0;

  // Closes the layout with the head. Called once, at the end of the constructor.
  void add_head(const std::vector<int64_t>& widths, double input_dropout, double hidden_dropout);

 private:
  double descend(const float* row, const Batch& batch, RandomStream& noise,
                 const GradientTarget& target);

  std::vector<int64_t> sample_shape_;
  LossKind loss_;
  std::unique_ptr<DenseStack> head_;
  std::size_t n_leaves_ = 0;  // tensors in front of the head
  RowLeaves leaves_;
};

}  // namespace hanse
