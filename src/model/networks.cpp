#include "networks.hpp"

#include <algorithm>

#include "autograd.hpp"
#include "hanse/base/error.hpp"
#include "network_forward.hpp"
#include "network_spec.hpp"

namespace hanse {

namespace {

// The smallest side that leaves an output of `side`.
int64_t input_side(const ConvolutionStage& stage, int64_t side) {
  return std::max<int64_t>(1,
                           (stage.pool ? 2 * side : side) - 2 * stage.padding + stage.kernel - 1);
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
  // The last ReLU is the head's.
  at::Tensor features(const std::vector<at::Tensor>& leaves,
                      const at::Tensor& input) const override {
    return convolve(stages_, leaves, input, Pooling::kMaxPool);
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
