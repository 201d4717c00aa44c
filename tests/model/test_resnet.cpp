// ResNet-18 in closed form against LibTorch's autograd of the same network in float64.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/model/threads.hpp"
#include "reference.hpp"
#include "support.hpp"

namespace hanse {
namespace {

struct ResNetCase {
  std::vector<int64_t> shape;
  int64_t channels, groups, rows;

  std::unique_ptr<Model> model() const {
    ModelOptions options = model_options("resnet18", "cross-entropy");
    options.channels = channels;
    options.groups = groups;
    return make_model(options, shape, 3);
  }
  Samples samples(uint64_t seed = 1) const { return {shape, 3, rows, seed}; }
};

std::ostream& operator<<(std::ostream& out, const ResNetCase& c) {
  return out << ::testing::PrintToString(c.shape) << " channels " << c.channels << " groups "
             << c.groups << " B=" << c.rows;
}

// Odd sides, images smaller than the strides, channels that do not fill a vector.
std::vector<ResNetCase> resnet_cases() {
  return {{{1, 3, 5}, 8, 1, 2},  {{3, 9, 9}, 5, 1, 3},  {{2, 33, 9}, 6, 3, 2},
          {{4, 5, 3}, 12, 2, 5}, {{3, 8, 7}, 17, 1, 4}, {{17, 4, 4}, 16, 4, 3},
          {{1, 2, 1}, 15, 1, 3}, {{3, 16, 17}, 9, 3, 1}};
}

TEST(ResNet, GradientIsThatOfAutograd) {
  for (const ResNetCase& c : resnet_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = c.model();
    const Samples samples = c.samples();
    const std::vector<float> row = initial_row(*model);
    const Reference expected =
        reference("resnet18", "cross-entropy", *model, c.shape, row, samples.batch(), c.groups);
    const LossAndGradient actual = loss_and_gradient(*model, row, samples.batch());
    EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * std::max(1.0, expected.loss));
    expect_close(model->layout(), actual.gradient, expected.gradient, 1e-4);
    const double loss = model->evaluate(row, samples.batch()).loss;
    EXPECT_NEAR(loss / static_cast<double>(c.rows), actual.loss, 1e-6);
  }
}

// The gradient of each tensor alone is what it is when all are asked for.
TEST(ResNet, HandsOverWhatIsWanted) {
  class Some final : public RowStep {
   public:
    Some(const ParameterSlot& slot, std::vector<float>& to) : slot_(slot), to_(to) {}
    void apply(int64_t offset, const float* gradient, int64_t size) override {
      if (!wants(offset)) return;
      std::copy_n(gradient, size, to_.begin() + offset);
      seen_ += size;
    }
    bool wants(int64_t offset) const override {
      return offset >= slot_.offset && offset < slot_.offset + slot_.size;
    }
    int64_t seen() const { return seen_; }

   private:
    const ParameterSlot& slot_;
    std::vector<float>& to_;
    int64_t seen_ = 0;
  };
  const ResNetCase c{{3, 9, 6}, 6, 2, 2};
  const auto model = c.model();
  const Samples samples = c.samples();
  std::vector<float> row = initial_row(*model);
  const LossAndGradient all = loss_and_gradient(*model, row, samples.batch());
  for (const ParameterSlot& slot : model->layout().slots()) {
    SCOPED_TRACE(slot.name);
    std::vector<float> found(row.size()), expected(row.size());
    std::copy_n(all.gradient.begin() + slot.offset, slot.size, expected.begin() + slot.offset);
    Some step(slot, found);
    RandomStream noise = noise_stream();
    EXPECT_EQ(model->step_by(row, samples.batch(), noise, step), all.loss);
    EXPECT_EQ(step.seen(), slot.size);
    EXPECT_EQ(found, expected);
  }
}

TEST(ResNet, TwoThreadsComputeTheSameWithinRounding) {
  const ResNetCase c{{3, 12, 9}, 10, 2, 5};
  const auto model = c.model();
  const Samples samples = c.samples();
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient one = loss_and_gradient(*model, row, samples.batch());
  set_model_threads(2);
  const LossAndGradient two = loss_and_gradient(*model, row, samples.batch());
  const LossAndGradient again = loss_and_gradient(*model, row, samples.batch());
  set_model_threads(1);
  EXPECT_NEAR(two.loss, one.loss, 1e-6);
  expect_close(model->layout(), two.gradient, one.gradient, 1e-5);
  EXPECT_EQ(again.gradient, two.gradient);
  EXPECT_EQ(loss_and_gradient(*model, row, samples.batch()).gradient, one.gradient);
}

// A pixel that is none makes the loss none, and leaves nothing to the next batch.
TEST(ResNet, NanPassesThrough) {
  const ResNetCase c{{3, 6, 6}, 4, 2, 2};
  const auto model = c.model();
  const Samples samples = c.samples();
  Samples spoilt = samples;
  spoilt.features[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient before = loss_and_gradient(*model, row, samples.batch());
  const LossAndGradient none = loss_and_gradient(*model, row, spoilt.batch());
  EXPECT_TRUE(std::isnan(none.loss));
  for (const float value : none.gradient) EXPECT_TRUE(std::isnan(value));
  const LossAndGradient after = loss_and_gradient(*model, row, samples.batch());
  EXPECT_EQ(after.loss, before.loss);
  EXPECT_EQ(after.gradient, before.gradient);
}

}  // namespace
}  // namespace hanse
