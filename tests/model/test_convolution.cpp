// Convolutions in closed form against plain loops in float64, for every family of kernels. Samples,
// weights and deltas are small whole numbers: all sums are exact, and ties and zeros are frequent.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/layers/convolution.hpp"

namespace hanse {
namespace {

using Values = std::vector<double>;

struct ConvolutionCase {
  std::vector<ConvolutionStage> stages;
  std::vector<int64_t> shape;
  int64_t rows;
};

std::ostream& operator<<(std::ostream& out, const ConvolutionCase& c) {
  out << ::testing::PrintToString(c.shape) << " B=" << c.rows;
  for (const ConvolutionStage& s : c.stages) {
    out << " -> " << s.channels << " by " << s.kernel << " pad " << s.padding
        << (s.pool ? " pooled" : "");
  }
  return out;
}

// Channels of 1 to 65 are every rest of a vector, widths every rest of a tile.
const std::vector<ConvolutionCase>& convolution_cases() {
  static const std::vector<ConvolutionCase> cases = {
      {{{1, 3, 0, false}}, {1, 3, 3}, 1},
      {{{65, 3, 0, true}}, {1, 4, 5}, 3},
      {{{17, 5, 2, true}}, {2, 3, 3}, 17},
      {{{16, 5, 2, false}}, {65, 3, 4}, 1},
      {{{5, 3, 2, true}}, {3, 33, 4}, 2},
      {{{32, 3, 0, false}, {64, 3, 0, true}}, {3, 11, 33}, 2},
      {{{32, 5, 2, true}, {64, 5, 2, true}}, {1, 28, 13}, 2},
      {{{6, 5, 2, true}, {16, 5, 0, true}}, {1, 28, 28}, 5},
      {{{6, 5, 0, true}, {16, 5, 0, true}}, {3, 32, 33}, 1},
      {{{33, 3, 2, true}, {48, 3, 0, false}}, {7, 9, 8}, 4},
      {{{31, 3, 0, true}, {1, 5, 2, false}, {9, 3, 2, true}}, {4, 12, 10}, 7},
      {{{65, 3, 1, false}, {15, 3, 2, false}, {65, 5, 0, true}}, {1, 6, 7}, 2},
  };
  return cases;
}

int64_t side_behind(const ConvolutionStage& s, int64_t side) {
  return side - s.kernel + 1 + 2 * s.padding;
}

// What one stage does, value by value, on images [channels, height, width].
struct PlainStage {
  ConvolutionStage of;
  int64_t channels, height, width;  // of its input
  const double *weight, *bias;
  Values input, output;        // the latter before its ReLU
  std::vector<int64_t> which;  // of each output its place in the convolution's
  Values weight_gradient, bias_gradient;

  int64_t conv_height() const { return side_behind(of, height); }
  int64_t conv_width() const { return side_behind(of, width); }

  // f(place in the convolution's output, place in the weight, place in the input) for all products.
  template <class F>
  void products(F f) const {
    for (int64_t o = 0; o < of.channels; ++o)
      for (int64_t y = 0; y < conv_height(); ++y)
        for (int64_t x = 0; x < conv_width(); ++x)
          for (int64_t v = 0; v < channels; ++v)
            for (int64_t i = 0; i < of.kernel; ++i)
              for (int64_t j = 0; j < of.kernel; ++j) {
                const int64_t r = y + i - of.padding, c = x + j - of.padding;
                if (r < 0 || r >= height || c < 0 || c >= width) continue;
                f((o * conv_height() + y) * conv_width() + x,
                  ((o * channels + v) * of.kernel + i) * of.kernel + j,
                  (v * height + r) * width + c);
              }
  }

  void forward() {
    const int64_t area = conv_height() * conv_width();
    Values conv;
    for (int64_t o = 0; o < of.channels; ++o) conv.insert(conv.end(), std::size_t(area), bias[o]);
    products([&](int64_t y, int64_t w, int64_t x) {
      conv[std::size_t(y)] += weight[w] * input[std::size_t(x)];
    });
    output.clear();
    which.clear();
    const int64_t step = of.pool ? 2 : 1;
    for (int64_t o = 0; o < of.channels; ++o)
      for (int64_t y = 0; y < conv_height() / step; ++y)
        for (int64_t x = 0; x < conv_width() / step; ++x) {
          int64_t best = -1;
          for (int64_t place = 0; place < step * step; ++place) {
            const int64_t at =
                o * area + (step * y + place / 2) * conv_width() + step * x + place % 2;
            if (best < 0 || conv[std::size_t(at)] > conv[std::size_t(best)]) best = at;
          }
          which.push_back(best);
          output.push_back(conv[std::size_t(best)]);
        }
  }

  // From the delta of the output that of the input.
  Values backward(const Values& delta) {
    Values of_conv(std::size_t(of.channels * conv_height() * conv_width())), of_input(input.size());
    for (std::size_t i = 0; i < delta.size(); ++i) {
      of_conv[std::size_t(which[i])] += delta[i];
      bias_gradient[std::size_t(which[i] / (conv_height() * conv_width()))] += delta[i];
    }
    products([&](int64_t y, int64_t w, int64_t x) {
      weight_gradient[std::size_t(w)] += of_conv[std::size_t(y)] * input[std::size_t(x)];
      of_input[std::size_t(x)] += of_conv[std::size_t(y)] * weight[w];
    });
    return of_input;
  }
};

// Features of one sample, and the gradient added to `gradient`, which lies as the row does.
void plain_sample(const ConvolutionCase& c, const ParameterLayout& layout, const double* row,
                  const float* sample, const double* delta, Values& features, Values& gradient) {
  std::vector<PlainStage> stages;
  int64_t channels = c.shape[0], height = c.shape[1], width = c.shape[2];
  Values x(sample, sample + channels * height * width);
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const auto& slots = layout.slots();
    PlainStage stage{c.stages[s],
                     channels,
                     height,
                     width,
                     row + slots[2 * s].offset,
                     row + slots[2 * s + 1].offset,
                     x};
    stage.weight_gradient.resize(std::size_t(slots[2 * s].size));
    stage.bias_gradient.resize(std::size_t(slots[2 * s + 1].size));
    stage.forward();
    channels = c.stages[s].channels;
    height = stage.conv_height() / (c.stages[s].pool ? 2 : 1);
    width = stage.conv_width() / (c.stages[s].pool ? 2 : 1);
    x = stage.output;
    for (double& value : x) value = std::max(value, 0.0);
    stages.push_back(stage);
  }
  const Values& last = stages.back().output;
  features.insert(features.end(), last.begin(), last.end());
  Values d(delta, delta + last.size());
  for (std::size_t s = stages.size(); s-- > 0;) {
    d = stages[s].backward(d);
    for (std::size_t i = 0; s > 0 && i < d.size(); ++i) d[i] = stages[s].input[i] > 0 ? d[i] : 0;
    for (const auto* part : {&stages[s].weight_gradient, &stages[s].bias_gradient}) {
      const auto slot = 2 * s + (part == &stages[s].bias_gradient ? 1 : 0);
      double* to = gradient.data() + layout.slots()[slot].offset;
      for (std::size_t i = 0; i < part->size(); ++i) to[i] += (*part)[i];
    }
  }
}

struct Plain {
  Values features, gradient;
};

Plain plain(const ConvolutionCase& c, const ParameterLayout& layout, const Values& row,
            const std::vector<float>& samples, const Values& delta) {
  Plain found{{}, Values(row.size())};
  for (int64_t r = 0; r < c.rows; ++r) {
    plain_sample(c, layout, row.data(), samples.data() + r * size_of(c.shape),
                 delta.data() + r * output_values(c.stages, c.shape), found.features,
                 found.gradient);
  }
  return found;
}

Values doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// -1, 0 or 1, more zeros where `rarity` is large.
std::vector<float> whole_numbers(int64_t n, int64_t rarity, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t drawn = random.below(2 * rarity);
    values.push_back(drawn == 0 ? -1.0F : drawn == 1 ? 1.0F : 0.0F);
  }
  return values;
}

struct Result {
  std::vector<float> features, gradient;
};

// With one more pass before on other samples, which may leave nothing behind.
Result run(ConvolutionStack& stack, const ParameterLayout& layout, const std::vector<float>& row,
           const std::vector<float>& samples, const std::vector<float>& delta, int64_t rows) {
  const std::vector<float> other(samples.size(), std::numeric_limits<float>::quiet_NaN());
  std::vector<float> ignored(row.size());
  stack.forward(row.data(), other.data(), rows);
  stack.backward(row.data(), delta.data(), {{.row = ignored.data()}});
  Result result;
  const float* features = stack.forward(row.data(), samples.data(), rows);
  result.features.assign(features, features + delta.size());
  result.gradient.assign(std::size_t(layout.n_params()), NAN);
  stack.backward(row.data(), delta.data(), {{.row = result.gradient.data()}});
  return result;
}

TEST(Convolution, IsThatOfPlainLoopsInEveryFamily) {
  for (const ConvolutionCase& c : convolution_cases()) {
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + name_of(family));
      ParameterLayout layout;
      ConvolutionStack stack(layout, c.stages, c.shape, convolution_kernels(family));
      const auto row = whole_numbers(layout.n_params(), 4, 1);
      const auto samples = whole_numbers(c.rows * size_of(c.shape), 2, 2);
      const auto delta = whole_numbers(c.rows * output_values(c.stages, c.shape), 2, 3);
      const Result actual = run(stack, layout, row, samples, delta, c.rows);
      const Plain expected = plain(c, layout, doubles(row), samples, doubles(delta));
      EXPECT_EQ(doubles(actual.features), expected.features);
      EXPECT_EQ(doubles(actual.gradient), expected.gradient);
    }
  }
}

std::vector<float> normal_numbers(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

// Numbers that round: the order of every sum is the same.
TEST(Convolution, HasTheSameBitsInEveryFamily) {
  for (const ConvolutionCase& c : convolution_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    std::vector<Result> results;
    for (const VectorFamily family : families()) {
      ParameterLayout layout;
      ConvolutionStack stack(layout, c.stages, c.shape, convolution_kernels(family));
      const auto row = normal_numbers(layout.n_params(), 1);
      const auto samples = normal_numbers(c.rows * size_of(c.shape), 2);
      const auto delta = normal_numbers(c.rows * output_values(c.stages, c.shape), 3);
      results.push_back(run(stack, layout, row, samples, delta, c.rows));
      EXPECT_EQ(results.back().features, results.front().features) << name_of(family);
      EXPECT_EQ(results.back().gradient, results.front().gradient) << name_of(family);
    }
  }
}

void expect_near(const float* actual, const Values& above, const Values& below, double step) {
  double largest = 1e-6, error = 0;
  for (std::size_t i = 0; i < above.size(); ++i) {
    const double slope = (above[i] - below[i]) / (2 * step);
    largest = std::max(largest, std::abs(slope));
    error = std::max(error, std::abs(slope - double{actual[i]}));
  }
  EXPECT_LE(error, 2e-5 * largest);
}

// Along v in the row and `along` in the delta, by differences in float64.
TEST(Convolution, TangentsAreSlopes) {
  constexpr double kStep = 1e-7;
  for (const ConvolutionCase& c : convolution_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    ParameterLayout layout;
    ConvolutionStack stack(layout, c.stages, c.shape);
    const auto row = normal_numbers(layout.n_params(), 1), v = normal_numbers(layout.n_params(), 4);
    const auto samples = normal_numbers(c.rows * size_of(c.shape), 2);
    const int64_t features = c.rows * output_values(c.stages, c.shape);
    const auto delta = normal_numbers(features, 3), along = normal_numbers(features, 5);
    const auto moved = [&](double step) {
      Values other = doubles(row), other_delta = doubles(delta);
      for (std::size_t i = 0; i < row.size(); ++i) other[i] += step * double{v[i]};
      for (std::size_t i = 0; i < delta.size(); ++i) other_delta[i] += step * double{along[i]};
      return plain(c, layout, other, samples, other_delta);
    };
    const Plain above = moved(kStep), below = moved(-kStep);
    run(stack, layout, row, samples, delta, c.rows);
    expect_near(stack.forward_tangent(row.data(), v.data()), above.features, below.features, kStep);
    std::vector<float> out(row.size(), NAN);
    stack.backward_tangent(delta.data(), along.data(), out.data());
    expect_near(out.data(), above.gradient, below.gradient, kStep);
  }
}

// A step that wants some tensors alone gets those, and the same values.
TEST(Convolution, HandsOverWhatIsWanted) {
  class Some final : public RowStep {
   public:
    explicit Some(int64_t at) : at_(at) {}
    void apply(int64_t offset, const float* gradient, int64_t size) override {
      EXPECT_EQ(offset, at_);
      got.assign(gradient, gradient + size);
    }
    bool wants(int64_t offset) const override { return offset == at_; }
    std::vector<float> got;

   private:
    int64_t at_;
  };
  const ConvolutionCase c{{{6, 3, 0, true}, {9, 3, 2, false}}, {2, 8, 9}, 3};
  ParameterLayout layout;
  ConvolutionStack stack(layout, c.stages, c.shape);
  const auto row = whole_numbers(layout.n_params(), 2, 1);
  const auto samples = whole_numbers(c.rows * size_of(c.shape), 2, 2);
  const auto delta = whole_numbers(c.rows * output_values(c.stages, c.shape), 2, 3);
  const Result all = run(stack, layout, row, samples, delta, c.rows);
  for (const ParameterSlot& slot : layout.slots()) {
    SCOPED_TRACE(slot.name);
    Some step(slot.offset);
    stack.backward(row.data(), delta.data(), {.step = &step});
    const auto begin = all.gradient.begin() + slot.offset;
    EXPECT_EQ(step.got, std::vector<float>(begin, begin + slot.size));
  }
}

// NaN is the largest of all, the last of several; of equal values the first counts.
TEST(Convolution, PoolsNanAndEqualValues) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> windows = {
      {1, 2, 3, 4},    {4, 4, 4, 4},       {-1, -2, -1, -2}, {kNan, 1, 2, 3},
      {1, kNan, 9, 3}, {9, 1, kNan, kNan}, {-3, -2, -5, -2}, {0, INFINITY, kNan, INFINITY}};
  const std::vector<int32_t> places = {3, 0, 0, 0, 1, 3, 1, 2};
  for (const VectorFamily family : families()) {
    for (const bool rectify : {false, true}) {
      SCOPED_TRACE(name_of(family));
      const auto channels = std::ssize(windows);
      std::vector<float> x(std::size_t(4 * channels + kReadAhead)), y(windows.size());
      for (std::size_t c = 0; c < windows.size(); ++c) {
        for (std::size_t place = 0; place < 4; ++place)
          x[place * windows.size() + c] = windows[c][place];
      }
      std::vector<int32_t> which(windows.size());
      const ConstImage image{x.data(), channels, 2 * channels};
      convolution_kernels(family).pool(1, 1, channels, image, {y.data(), channels, channels},
                                       rectify, which.data());
      EXPECT_EQ(which, places);
      for (std::size_t c = 0; c < windows.size(); ++c) {
        const float largest = windows[c][std::size_t(places[c])];
        if (std::isnan(largest)) {
          EXPECT_TRUE(std::isnan(y[c]));
        } else {
          EXPECT_EQ(y[c], rectify ? std::max(largest, 0.0F) : largest);
        }
      }
    }
  }
}

// As torch's ReLU: the convolution behind it gets NaN, and takes a delta back to it.
TEST(Convolution, NanPassesTheReluInEveryFamily) {
  for (const VectorFamily family : families()) {
    SCOPED_TRACE(name_of(family));
    ParameterLayout layout;
    ConvolutionStack stack(layout, {{1, 3, 0, false}, {1, 3, 0, false}}, {1, 5, 5},
                           convolution_kernels(family));
    const std::vector<float> row(std::size_t(layout.n_params()), 1.0F);
    std::vector<float> sample(25, 1.0F), gradient(row.size());
    sample[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(stack.forward(row.data(), sample.data(), 1)[0]));
    const float delta = 1;
    stack.backward(row.data(), &delta, {{.row = gradient.data()}});
    EXPECT_EQ(gradient[9], 9);  // of the first bias: all nine outputs pass
  }
}

}  // namespace
}  // namespace hanse
