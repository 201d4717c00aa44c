// The frozen layers of networks in closed form: what they make of a sample, in whatever batch, is
// to the bit what a pass makes of it.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/model/frozen_part.hpp"
#include "support.hpp"

namespace hanse {
namespace {

// All samples, in blocks of other sizes than the batches have.
class InBlocks final : public FrozenValues {
 public:
  InBlocks(FrozenPart& part, const Samples& samples, int64_t sample_values)
      : values_(static_cast<std::size_t>(samples.rows * part.values())), size_(part.values()) {
    constexpr int64_t kBlock = 5;
    for (int64_t first = 0; first < samples.rows; first += kBlock) {
      part.compute(samples.features.data() + first * sample_values,
                   std::min(kBlock, samples.rows - first), values_.data() + first * size_);
    }
  }
  void gather(const Batch& batch, float* out) override {
    for (int64_t i = 0; i < batch.rows; ++i) {
      out = std::copy_n(values_.begin() + batch.places[i] * size_, size_, out);
    }
  }

 private:
  std::vector<float> values_;
  int64_t size_;
};

// The step of some tensors, as that of a model's part.
class SomeTensors final : public RowStep {
 public:
  SomeTensors(const ParameterLayout& layout, const std::vector<char>& moves)
      : gradient(static_cast<std::size_t>(layout.n_params())), layout_(layout), moves_(moves) {}

  bool wants(int64_t offset) const override {
    const auto slot = std::ranges::find(layout_.slots(), offset, &ParameterSlot::offset);
    return moves_[static_cast<std::size_t>(slot - layout_.slots().begin())] != 0;
  }
  void apply(int64_t offset, const float* values, int64_t size) override {
    if (wants(offset)) std::copy_n(values, size, gradient.begin() + offset);
  }

  std::vector<float> gradient;

 private:
  const ParameterLayout& layout_;
  const std::vector<char>& moves_;
};

struct Case {
  std::string kind;
  std::vector<int64_t> shape;
  std::vector<std::string> trained;  // beginnings of names
  bool is_frozen = true;             // something before them
};

class Cut {
 public:
  Cut(const Case& c, Precision precision) : samples_(c.shape, 3, 23) {
    ModelOptions options = model_options(c.kind, "cross-entropy");
    options.precision = precision;
    options.channels = 8;
    options.groups = 2;
    model_ = make_model(options, c.shape, 3);
    row_ = initial_row(*model_);
    for (const ParameterSlot& slot : model_->layout().slots()) {
      moves_.push_back(std::ranges::any_of(c.trained, [&](const std::string& beginning) {
        return slot.name.starts_with(beginning);
      }));
    }
  }

  FrozenPart* freeze() {
    return network().freeze({.moves = moves_, .row = row_.data(), .samples = {}});
  }
  CuttableNetwork& network() { return dynamic_cast<CuttableNetwork&>(*model_); }
  InBlocks values(FrozenPart& part) const { return {part, samples_, sample_values()}; }

  // The gradient of what moves, and the losses, of samples 6, 7, ...
  std::vector<float> results() {
    Batch batch = samples_.batch();
    batch.features += 6 * sample_values();
    batch.labels += 6;
    batch.rows = 13;
    batch.places = {.begin = 6};
    RandomStream noise = noise_stream();
    SomeTensors step(model_->layout(), moves_);
    const double loss = model_->step_by(row_, batch, noise, step);
    step.gradient.push_back(static_cast<float>(loss));
    step.gradient.push_back(static_cast<float>(model_->evaluate(row_, batch).loss));
    return step.gradient;
  }

 private:
  int64_t sample_values() const { return std::ssize(samples_.features) / samples_.rows; }

  Samples samples_;
  std::unique_ptr<Model> model_;
  std::vector<float> row_;
  std::vector<char> moves_;
};

void expect_same_bits(const Case& c, Precision precision) {
  Cut cut(c, precision);
  FrozenPart* const part = cut.freeze();
  ASSERT_EQ(part != nullptr, c.is_frozen);
  if (part == nullptr) return;
  InBlocks values = cut.values(*part);
  const std::vector<float> whole = cut.results();
  cut.network().take_frozen(values, *part);
  EXPECT_EQ(cut.results(), whole);
}

TEST(FrozenLayers, HaveTheBitsOfAPass) {
  const std::vector<Case> cases = {
      {"lenet", {1, 14, 14}, {"fc"}},
      {"lenet", {1, 14, 14}, {"fc3"}},
      {"lenet", {1, 14, 14}, {"conv2", "fc"}, false},
      {"cnn-leaf", {1, 12, 12}, {"fc2"}},
      {"cnn-cifar", {3, 24, 24}, {"fc"}},
      {"cnn-mcmahan", {1, 12, 12}, {"fc2"}},
      {"resnet18", {3, 8, 8}, {"fc"}},
      {"resnet18", {3, 8, 8}, {"layer4", "fc"}},
      {"resnet18", {3, 8, 8}, {"layer3.1.bn2.weight"}},
      {"resnet18", {3, 8, 8}, {"layer1", "fc"}},
      {"resnet18", {3, 8, 8}, {"conv1"}, false},
  };
  for (const Case& c : cases) {
    for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
      SCOPED_TRACE(c.kind + ", " + c.trained.front() +
                   (precision == Precision::kFloat32 ? "" : " in bfloat16"));
      expect_same_bits(c, precision);
    }
  }
}

}  // namespace
}  // namespace hanse
