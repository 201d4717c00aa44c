#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "makers.hpp"
#include "networks/cohort_forward.hpp"
#include "networks/graph.hpp"
#include "networks/network_forward.hpp"

namespace hanse {

namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kBlocks = 2;  // of a stage

// The network on images x [B, C channels, height, width], C clients' in the channels of one:
// grouped convolutions, and as many groups of each norm. Of one client the leaves have no leading
// C.
class ResNetPass {
 public:
  ResNetPass(std::span<const at::Tensor> leaves, int64_t groups)
      : leaves_(leaves), clients_(leaves[0].dim() == 5 ? leaves[0].size(0) : 0), groups_(groups) {}

  // [B, outputs], or [C, B, outputs].
  at::Tensor logits(at::Tensor x) {
    x = convolve(x, 1).relu_();
    for (int64_t stage = 0; stage < kStages; ++stage) {
      for (int64_t block = 0; block < kBlocks; ++block) x = pass(x, stage > 0 && block == 0);
    }
    x = x.mean({2, 3});
    if (clients_ > 0) x = x.view({x.size(0), clients_, -1}).transpose(0, 1);
    return dense(x, leaves_[next_], leaves_[next_ + 1]);
  }

 private:
  // The next leaf in the layout's order, clients one behind the other.
  at::Tensor take() {
    const at::Tensor& leaf = leaves_[next_++];
    return clients_ > 0 ? leaf.flatten(0, 1) : leaf;
  }

  // Convolution that keeps the sides but for the stride, and its norm. A kernel of one pixel reads
  // every stride-th pixel alone: it gets these as its input, since oneDNN 2.6 writes behind its
  // buffers when it strides itself over fewer than 16 channels on several threads.
  at::Tensor convolve(const at::Tensor& x, int64_t stride) {
    const at::Tensor kernel = take();
    const int64_t clients = std::max<int64_t>(clients_, 1);
    const bool pixel = kernel.size(2) == 1;
    const at::Tensor read =
        pixel ? x.slice(2, 0, c10::nullopt, stride).slice(3, 0, c10::nullopt, stride) : x;
    const int64_t step = pixel ? 1 : stride, padding = kernel.size(2) / 2;
    const at::Tensor y = at::conv2d(read, kernel, {}, step, padding, 1, clients);
    const at::Tensor weight = take();
    return at::group_norm(y, groups_ * clients, weight, take(), kNormEpsilon);
  }

  // relu(F(x) + x), the shortcut through a convolution when the block changes the shape.
  at::Tensor pass(const at::Tensor& x, bool reshapes) {
    const at::Tensor inner = convolve(x, reshapes ? 2 : 1).relu_();
    const at::Tensor outer = convolve(inner, 1);
    return (outer + (reshapes ? convolve(x, 2) : x)).relu_();
  }

  std::span<const at::Tensor> leaves_;
  int64_t clients_;  // 0: the leaves are one's
  int64_t groups_;
  std::size_t next_ = 0;
};

class ResNet final : public GraphModel {
 public:
  ResNet(const std::vector<int64_t>& sample_shape, int64_t channels, int64_t groups, LossPtr loss)
      : GraphModel(loss), sample_shape_(sample_shape), groups_(groups) {
    int64_t height = sample_shape[1], width_of_image = sample_shape[2];
    const auto add = [&](const std::string& name, const std::string& norm, int64_t from, int64_t to,
                         int64_t kernel) {
      add_convolution(name, norm, from, to, kernel);
      add_layer_work(static_cast<double>(from * to * kernel * kernel * height * width_of_image),
                     name == "conv1");
    };
    add("conv1", "bn1", sample_shape[0], channels, 3);
    int64_t inputs = channels;
    for (int64_t stage = 0; stage < kStages; ++stage) {
      const int64_t width = channels << stage;
      for (int64_t block = 0; block < kBlocks; ++block) {
        const std::string name = fmt::format("layer{}.{}.", stage + 1, block);
        if (inputs != width) {  // a stride of 2
          height = (height + 1) / 2;
          width_of_image = (width_of_image + 1) / 2;
        }
        add(name + "conv1", name + "bn1", inputs, width, 3);
        add(name + "conv2", name + "bn2", width, width, 3);
        if (inputs != width) {
          add(name + "downsample.0", name + "downsample.1", inputs, width, 1);
        }
        inputs = width;
      }
    }
    layout_.add("fc.weight", {loss->outputs(), inputs}, inputs);
    layout_.add("fc.bias", {loss->outputs()}, inputs);
    add_layer_work(static_cast<double>(loss->outputs() * inputs));
  }

  int64_t evaluation_rows() const override { return 32; }

 protected:
  at::Tensor graph(const std::vector<at::Tensor>& leaves, const Batch& batch,
                   RandomStream*) override {
    return ResNetPass(leaves, groups_).logits(image_input(batch, sample_shape_));
  }

 private:
  void add_convolution(const std::string& name, const std::string& norm, int64_t inputs,
                       int64_t outputs, int64_t kernel) {
    layout_.add(name + ".weight", {outputs, inputs, kernel, kernel}, inputs * kernel * kernel);
    layout_.add_constant(norm + ".weight", {outputs}, 1);
    layout_.add_constant(norm + ".bias", {outputs}, 0);
  }

  std::vector<int64_t> sample_shape_;
  int64_t groups_;
};

class ResNetForward final : public CohortForward {
 public:
  ResNetForward(const std::vector<int64_t>& sample_shape, int64_t groups)
      : sample_shape_(sample_shape), groups_(groups) {}

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor>) const override {
    return ResNetPass(leaves, groups_).logits(images_side_by_side(input, sample_shape_));
  }

 private:
  std::vector<int64_t> sample_shape_;
  int64_t groups_;
};

}  // namespace

std::unique_ptr<CohortForward> make_resnet_cohort(const ModelCase& c) {
  return std::make_unique<ResNetForward>(c.sample_shape, c.options.groups);
}

std::unique_ptr<Model> make_resnet18(const ModelCase& c) {
  if (c.sample_shape.size() != 3) refuse_shape(c, "{channels, height, width}");
  const int64_t channels = c.options.channels, groups = c.options.groups;
  if (channels < 1 || groups < 1 || channels % groups != 0) {
    throw InvalidArgument(fmt::format("{} groups do not divide {} channels", groups, channels),
                          "model.groups");
  }
  return std::make_unique<ResNet>(c.sample_shape, channels, groups, c.loss);
}

}  // namespace hanse
