#include "networks.hpp"

#include <algorithm>

#include "autograd.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// The smallest side that leaves an output of `side`.
int64_t input_side(const ConvolutionStage& stage, int64_t side) {
  return std::max<int64_t>(1,
                           (stage.pool ? 2 * side : side) - 2 * stage.padding + stage.kernel - 1);
}

// Caldas et al. 2018, LEAF: the FEMNIST model (6.6M parameters for 62 classes).
NetworkSpec leaf_spec() { return {{{32, 5, 2, true}, {64, 5, 2, true}}, {2048}, 0, 0}; }

// Granqvist et al. 2024, pfl-research: the CIFAR-10 model (1.6M parameters).
NetworkSpec cifar_spec() { return {{{32, 3, 0, false}, {64, 3, 0, true}}, {128}, 0.25, 0.5}; }

// LeCun et al. 1998, LeNet-5, with ReLU and max pooling. Its input is 32x32; smaller images, like
// the 28x28 of MNIST, are padded by 2.
NetworkSpec lenet_spec(int64_t shorter_side) {
  const int64_t padding = shorter_side < 32 ? 2 : 0;
  return {{{6, 5, padding, true}, {16, 5, 0, true}}, {120, 84}, 0, 0};
}

class ConvolutionalModel : public AutogradModel {
 public:
  ConvolutionalModel(const NetworkSpec& spec, const std::vector<int64_t>& sample_shape,
                     LossKind loss, int64_t outputs)
      : AutogradModel(sample_shape, loss), stages_(spec.stages) {
    int64_t channels = sample_shape[0], height = sample_shape[1], width = sample_shape[2];
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const ConvolutionStage& stage = stages_[s];
      const std::string name = "conv" + std::to_string(s + 1);
      const int64_t fan_in = channels * stage.kernel * stage.kernel;
      layout_.add(name + ".weight", {stage.channels, channels, stage.kernel, stage.kernel}, fan_in);
      layout_.add(name + ".bias", {stage.channels}, fan_in);
      channels = stage.channels;
      height = stage.output_side(height);
      width = stage.output_side(width);
    }
    std::vector<int64_t> widths = {channels * height * width};
    widths.insert(widths.end(), spec.hidden.begin(), spec.hidden.end());
    widths.push_back(outputs);
    add_head(widths, spec.feature_dropout, spec.hidden_dropout);
  }

 protected:
  // ReLU after pooling: max(relu(x)) = relu(max(x)), and the gradients are equal too, on a quarter
  // of the values. The last ReLU is the head's.
  at::Tensor features(const std::vector<at::Tensor>& leaves,
                      const at::Tensor& input) const override {
    at::Tensor x = input;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (s > 0) at::relu_(x);
      x = at::conv2d(x, leaves[2 * s], leaves[2 * s + 1], 1, stages_[s].padding);
      if (stages_[s].pool) x = at::max_pool2d(x, 2);
    }
    return x;
  }

 private:
  std::vector<ConvolutionStage> stages_;
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "{";
  for (const int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "}";
}

int64_t shorter_side(const std::vector<int64_t>& sample_shape) {
  return sample_shape.size() == 3 ? std::min(sample_shape[1], sample_shape[2]) : 0;
}

}  // namespace

int64_t ConvolutionStage::output_side(int64_t side) const {
  const int64_t convolved = side + 2 * padding - kernel + 1;
  return pool ? convolved / 2 : convolved;
}

NetworkSpec network_spec(const std::string& kind, const std::vector<int64_t>& sample_shape) {
  if (kind == "cnn-leaf") return leaf_spec();
  if (kind == "cnn-cifar") return cifar_spec();
  if (kind == "lenet") return lenet_spec(shorter_side(sample_shape));
  throw InvalidArgument("\"" + kind + "\" is no convolutional network", "model.kind",
                        "known: cnn-leaf, cnn-cifar, lenet");
}

std::unique_ptr<Model> make_network(const std::string& kind,
                                    const std::vector<int64_t>& sample_shape, LossKind loss,
                                    int64_t outputs) {
  const NetworkSpec spec = network_spec(kind, sample_shape);
  int64_t needed = 1;
  for (std::size_t s = spec.stages.size(); s-- > 0;) needed = input_side(spec.stages[s], needed);
  if (shorter_side(sample_shape) < needed) {
    throw InvalidArgument(kind +
                              " needs samples of shape {channels, height, width} with sides of " +
                              std::to_string(needed) + " or more, not " + shape_text(sample_shape),
                          "model.kind");
  }
  return std::make_unique<ConvolutionalModel>(spec, sample_shape, loss, outputs);
}

}  // namespace hanse
