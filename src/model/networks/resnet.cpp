#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "makers.hpp"
#include "networks/graph.hpp"

namespace hanse {

namespace {

// Hands out the leaves in the layout's order.
struct Cursor {
  const at::Tensor* next;
  const at::Tensor& take() { return *next++; }
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
    Cursor cursor{leaves.data()};
    at::Tensor x = convolve(image_input(batch, sample_shape_), cursor, 1).relu_();
    for (int64_t stage = 0; stage < kStages; ++stage) {
      for (int64_t block = 0; block < kBlocks; ++block) {
        x = pass(x, cursor, stage > 0 && block == 0);
      }
    }
    const at::Tensor& weight = cursor.take();
    return at::linear(x.mean({2, 3}), weight, cursor.take());
  }

 private:
  static constexpr int64_t kStages = 4;
  static constexpr int64_t kBlocks = 2;  // of a stage

  void add_convolution(const std::string& name, const std::string& norm, int64_t inputs,
                       int64_t outputs, int64_t kernel) {
    layout_.add(name + ".weight", {outputs, inputs, kernel, kernel}, inputs * kernel * kernel);
    layout_.add_constant(norm + ".weight", {outputs}, 1);
    layout_.add_constant(norm + ".bias", {outputs}, 0);
  }

  // Convolution that keeps the sides but for the stride, and its norm. A kernel of one pixel reads
  // every stride-th pixel alone: it gets these as its input, since oneDNN 2.6 writes behind its
  // buffers when it strides itself over fewer than 16 channels on several threads.
  at::Tensor convolve(const at::Tensor& x, Cursor& cursor, int64_t stride) const {
    const at::Tensor& kernel = cursor.take();
    const bool pixel = kernel.size(2) == 1;
    const at::Tensor y =
        pixel ? at::conv2d(x.slice(2, 0, c10::nullopt, stride).slice(3, 0, c10::nullopt, stride),
                           kernel)
              : at::conv2d(x, kernel, {}, stride, kernel.size(2) / 2);
    const at::Tensor& weight = cursor.take();
    return at::group_norm(y, groups_, weight, cursor.take(), kNormEpsilon);
  }

  // relu(F(x) + x), the shortcut through a convolution when the block changes the shape.
  at::Tensor pass(const at::Tensor& x, Cursor& cursor, bool reshapes) const {
    const at::Tensor inner = convolve(x, cursor, reshapes ? 2 : 1).relu_();
    const at::Tensor outer = convolve(inner, cursor, 1);
    return (outer + (reshapes ? convolve(x, cursor, 2) : x)).relu_();
  }

  std::vector<int64_t> sample_shape_;
  int64_t groups_;
};

}  // namespace

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
