#include "networks/cohorts/network_forward.hpp"

#include <algorithm>
#include <utility>

#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

namespace {

// Max pooling by 2x2 of [..., height, width]. The first of equal values has the gradient, and NaN
// is the largest, as in at::max_pool2d.
at::Tensor max_pool(const at::Tensor& x) {
  const int64_t height = x.size(-2) / 2 * 2, width = x.size(-1) / 2 * 2;
  const auto corner = [&](int64_t row, int64_t column) {
    return x.slice(-2, row, height, 2).slice(-1, column, width, 2);
  };
  at::Tensor largest = corner(0, 0);
  for (const auto& [row, column] : {std::pair{0, 1}, {1, 0}, {1, 1}}) {
    const at::Tensor next = corner(row, column);
    largest = at::where(next.gt(largest).logical_or_(next.isnan()), next, largest);
  }
  return largest;
}

}  // namespace

at::Tensor convolve(const NetworkProducts& products, const std::vector<ConvolutionStage>& stages,
                    std::span<const at::Tensor> leaves, at::Tensor x) {
  const bool many = !stages.empty() && leaves[0].dim() == 5;
  const int64_t clients = many ? leaves[0].size(0) : 1;
  const auto joined = [&](const at::Tensor& leaf) { return many ? leaf.flatten(0, 1) : leaf; };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0) at::relu_(x);
    x = products.convolve(x, joined(leaves[2 * s]), joined(leaves[2 * s + 1]), 1, stages[s].padding,
                          clients);
    if (stages[s].pool) x = max_pool(x);
  }
  return x;
}

at::Tensor dense_layers(const NetworkProducts& products, std::span<const at::Tensor> leaves,
                        bool bias, at::Tensor x, std::span<const at::Tensor> masks,
                        at::Tensor* last_input) {
  const std::size_t step = bias ? 2 : 1;
  for (std::size_t leaf = 0; leaf < leaves.size(); leaf += step) {
    const at::Tensor& weight = leaves[leaf];
    if (last_input != nullptr) *last_input = x;
    if (weight.dim() == 2) {
      x = at::linear(x, weight, bias ? leaves[leaf + 1] : at::Tensor());
    } else {
      const at::Tensor transposed = weight.transpose(1, 2);  // [C, in, out]
      x = bias ? products.add(leaves[leaf + 1].unsqueeze(1), x, transposed)
               : products.multiply(x, transposed);
    }
    if (leaf + step == leaves.size()) break;
    x = at::relu(x);
    if (!masks.empty()) x = x * masks[leaf / step];
  }
  return x;
}

at::Tensor dense(const NetworkProducts& products, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& bias) {
  if (weight.dim() == 2) return at::linear(x, weight, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(1);
  return products.add(bias.unsqueeze(1), x.flatten(1, -2), weight.transpose(1, 2)).view(sizes);
}

at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids) {
  if (weight.dim() == 2) return at::embedding(weight, ids);
  std::vector<int64_t> first(static_cast<std::size_t>(ids.dim()), 1);
  first.front() = weight.size(0);
  const at::Tensor own = at::arange(weight.size(0), ids.options()) * weight.size(1);
  return at::embedding(weight.flatten(0, 1), ids + own.view(first));
}

namespace {

class NetworkForward final : public CohortForward {
 public:
  NetworkForward(NetworkSpec spec, const ModelCase& c)
      : spec_(std::move(spec)), sample_shape_(c.sample_shape), products_(is_bfloat16(c.options)) {
    if (!spec_.stages.empty() && spec_.feature_dropout > 0) {
      dropouts_.push_back({output_values(spec_.stages, sample_shape_), spec_.feature_dropout});
    }
    if (spec_.hidden_dropout > 0) {
      for (const int64_t units : spec_.hidden) dropouts_.push_back({units, spec_.hidden_dropout});
    }
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor> masks, at::Tensor* representation) const override {
    at::Tensor x = input;
    if (!spec_.stages.empty()) {
      const int64_t c = input.size(0), b = input.size(1);
      x = convolve(products_, spec_.stages, leaves, images_side_by_side(input, sample_shape_));
      x = at::relu(x.reshape({b, c, -1}).transpose(0, 1));
      if (!masks.empty() && spec_.feature_dropout > 0) {
        x = x * masks.front();
        masks = masks.subspan(1);
      }
    }
    return dense_layers(products_, leaves.subspan(2 * spec_.stages.size()), spec_.bias, x, masks,
                        representation);
  }

 private:
  NetworkSpec spec_;
  std::vector<int64_t> sample_shape_;
  NetworkProducts products_;
};

}  // namespace

std::unique_ptr<CohortForward> make_layers_cohort(const ModelCase& c,
                                                  const std::string& /*device*/) {
  return std::make_unique<NetworkForward>(network_spec(c.options, c.sample_shape).value(), c);
}

}  // namespace hanse
