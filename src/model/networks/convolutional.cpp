#include <algorithm>

#include <fmt/format.h>

#include "makers.hpp"
#include "networks/graph.hpp"
#include "networks/network_forward.hpp"

namespace hanse {

namespace {

class ConvolutionalModel final : public GraphModel {
 public:
  ConvolutionalModel(const NetworkSpec& spec, const std::vector<int64_t>& sample_shape,
                     LossPtr loss)
      : GraphModel(loss), sample_shape_(sample_shape), stages_(spec.stages) {
    int64_t channels = sample_shape[0], height = sample_shape[1], width = sample_shape[2];
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const ConvolutionStage& stage = stages_[s];
      const std::string name = "conv" + std::to_string(s + 1);
      const int64_t fan_in = channels * stage.kernel * stage.kernel;
      layout_.add(name + ".weight", {stage.channels, channels, stage.kernel, stage.kernel}, fan_in);
      layout_.add(name + ".bias", {stage.channels}, fan_in);
      channels = stage.channels;
      ConvolutionStage without_pool = stage;
      without_pool.pool = false;
      add_layer_work(static_cast<double>(channels * fan_in * output_side({without_pool}, height) *
                                         output_side({without_pool}, width)),
                     s == 0);
      height = output_side({stage}, height);
      width = output_side({stage}, width);
    }
    std::vector<int64_t> widths = {output_values(stages_, sample_shape)};
    widths.insert(widths.end(), spec.hidden.begin(), spec.hidden.end());
    widths.push_back(loss->outputs());
    add_head(widths, spec.feature_dropout, spec.hidden_dropout);
  }

  // Few enough that the activations stay in the cache: 256 rows take 1.5 times longer a sample.
  int64_t evaluation_rows() const override { return 32; }

 protected:
  // The last ReLU is the head's.
  at::Tensor graph(const std::vector<at::Tensor>& leaves, const Batch& batch,
                   RandomStream*) override {
    return convolve(stages_, leaves, image_input(batch, sample_shape_), Pooling::kMaxPool);
  }

 private:
  std::vector<int64_t> sample_shape_;
  std::vector<ConvolutionStage> stages_;
};

}  // namespace

std::unique_ptr<Model> make_convolutional(const ModelCase& c) {
  const NetworkSpec spec = *network_spec(c.options, c.sample_shape);
  int64_t needed = 1;
  while (output_side(spec.stages, needed) < 1) ++needed;
  if (c.sample_shape.size() != 3 || std::min(c.sample_shape[1], c.sample_shape[2]) < needed) {
    refuse_shape(c, fmt::format("{{channels, height, width}} with sides of {} or more", needed));
  }
  return std::make_unique<ConvolutionalModel>(spec, c.sample_shape, c.loss);
}

}  // namespace hanse
