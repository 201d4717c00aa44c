// ResNet-18 of several clients side by side; src/model/resnet.cpp has one client's, in closed form.
#include "layers/group_norm.hpp"
#include "makers.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/cohorts/network_forward.hpp"

namespace hanse {

namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kBlocks = 2;  // of a stage

// The network on images x [B, C channels, height, width], C clients' in the channels of one:
// grouped convolutions, and as many groups of each norm. Leaves have a leading C.
class ResNetPass {
 public:
  ResNetPass(const NetworkProducts& products, std::span<const at::Tensor> leaves, int64_t groups)
      : products_(products), leaves_(leaves), clients_(leaves[0].size(0)), groups_(groups) {}

  // Returns the logits [C, B, outputs].
  at::Tensor logits(at::Tensor x, at::Tensor* representation) {
    x = convolve(x, 1).relu_();
    for (int64_t stage = 0; stage < kStages; ++stage) {
      for (int64_t block = 0; block < kBlocks; ++block) x = pass(x, stage > 0 && block == 0);
    }
    x = x.mean({2, 3});
    x = x.view({x.size(0), clients_, -1}).transpose(0, 1);
    if (representation != nullptr) *representation = x;
    return dense(products_, x, leaves_[next_], leaves_[next_ + 1]);
  }

 private:
  // The next leaf in the layout's order, clients one behind the other.
  at::Tensor take() { return leaves_[next_++].flatten(0, 1); }

  // Convolution that keeps the sides but for the stride, and its norm. A kernel of one pixel reads
  // every stride-th pixel alone: it gets these as its input, since oneDNN 2.6 writes behind its
  // buffers when it strides itself over fewer than 16 channels on several threads.
  at::Tensor convolve(const at::Tensor& x, int64_t stride) {
    const at::Tensor kernel = take();
    const bool pixel = kernel.size(2) == 1;
    const at::Tensor read =
        pixel ? x.slice(2, 0, c10::nullopt, stride).slice(3, 0, c10::nullopt, stride) : x;
    const int64_t step = pixel ? 1 : stride, padding = kernel.size(2) / 2;
    const at::Tensor y = products_.convolve(read, kernel, {}, step, padding, clients_);
    const at::Tensor weight = take();
    return at::group_norm(y, groups_ * clients_, weight, take(), kNormEpsilon);
  }

  // relu(F(x) + x), the shortcut through a convolution when the block changes the shape.
  at::Tensor pass(const at::Tensor& x, bool reshapes) {
    const at::Tensor inner = convolve(x, reshapes ? 2 : 1).relu_();
    const at::Tensor outer = convolve(inner, 1);
    return (outer + (reshapes ? convolve(x, 2) : x)).relu_();
  }

  const NetworkProducts& products_;
  std::span<const at::Tensor> leaves_;
  int64_t clients_;
  int64_t groups_;
  std::size_t next_ = 0;
};

class ResNetForward final : public CohortForward {
 public:
  explicit ResNetForward(const ModelCase& c)
      : sample_shape_(c.sample_shape),
        groups_(c.options.groups),
        products_(is_bfloat16(c.options)) {}

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor>, at::Tensor* representation) const override {
    return ResNetPass(products_, leaves, groups_)
        .logits(images_side_by_side(input, sample_shape_), representation);
  }

 private:
  std::vector<int64_t> sample_shape_;
  int64_t groups_;
  NetworkProducts products_;
};

}  // namespace

std::unique_ptr<CohortForward> make_resnet_cohort(const ModelCase& c,
                                                  const std::string& /*device*/) {
  return std::make_unique<ResNetForward>(c);
}

}  // namespace hanse
