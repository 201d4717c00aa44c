// The kernels of LSTM layers, for every family of processors: against the C library's functions in
// float64, and against each other; and the network on several threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"
#include "model/kernels/lstm_kernels.hpp"
#include "model/kernels/packed_matrix.hpp"
#include "support.hpp"

namespace hanse {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kBehind = 1234.5F;  // stands behind every array, where nothing may be written

using Floats = std::vector<float>;

// Every rest of a vector, and several vectors.
std::vector<int64_t> rests() {
  std::vector<int64_t> sizes;
  for (int64_t n = 1; n <= 17; ++n) sizes.push_back(n);
  sizes.insert(sizes.end(), {31, 32, 33, 64, 67});
  return sizes;
}

Floats normal_floats(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  Floats values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(2 * random.normal()));
  return values;
}

// A step and its memory, each array with one value more.
struct Step {
  Step(int64_t n_rows, int64_t n_units, Floats sums, bool is_first = false)
      : rows(n_rows), units(n_units), first(is_first), gates(std::move(sums)) {
    gates.push_back(kBehind);
    before = normal_floats(rows * units, 7);
    delta = normal_floats(rows * units, 8);
    delta_cells = normal_floats(rows * units, 9);
    delta_cells.push_back(kBehind);
    for (Floats* to : {&cells, &tanhs, &hidden}) to->assign(std::size_t(rows * units + 1), kBehind);
  }
  const float* c_before() const { return first ? nullptr : before.data(); }
  void advance(VectorFamily family) {
    lstm_kernels(family).advance(
        {rows, units, gates.data(), c_before(), cells.data(), tanhs.data(), hidden.data()});
  }
  void retreat(VectorFamily family) {
    lstm_kernels(family).retreat(
        {rows, units, gates.data(), c_before(), tanhs.data(), delta.data(), delta_cells.data()});
  }

  int64_t rows, units;
  bool first;
  Floats gates, before, cells, tanhs, hidden, delta, delta_cells;
};

// The gates i (or g) of these sums.
Floats gates_of(VectorFamily family, const Floats& sums, int64_t gate) {
  const int64_t n = std::ssize(sums);
  Floats all(std::size_t(4 * n));
  std::copy(sums.begin(), sums.end(), all.begin() + gate * n);
  Step step(1, n, all);
  step.advance(family);
  return {step.gates.begin() + gate * n, step.gates.begin() + (gate + 1) * n};
}
Floats sigmoids(VectorFamily family, const Floats& x, int64_t gate = 0) {
  return gates_of(family, x, gate);
}
Floats tanhs(VectorFamily family, const Floats& x) { return gates_of(family, x, 2); }

// From -90 to 90, dense, and either sign of 2^-149 to 2^7, with numbers between the powers.
Floats dense_arguments() {
  Floats x;
  for (int64_t i = -90000; i <= 90000; ++i) x.push_back(static_cast<float>(i) * 1e-3F);
  for (int64_t i = -7000; i <= 7000; ++i) x.push_back(static_cast<float>(i) * 1.37e-4F);
  for (int exponent = -149; exponent <= 7; ++exponent) {
    for (int64_t i = 0; i < 50; ++i) {
      x.push_back(std::ldexp(1.0F + static_cast<float>(i) / 50, exponent));
      x.push_back(-x.back());
    }
  }
  return x;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <class Function>
void expect_function(const Floats& x, const Floats& actual, Function function, double smallest) {
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = function(double{x[i]});
    const double size = std::max(std::abs(expected), smallest);
    const double error = std::abs(double{actual[i]} - expected) / size;
    if (!(error <= worst)) {
      worst = error;
      at = x[i];
    }
  }
  EXPECT_LE(worst, 3e-7) << "at " << at;
}

TEST(LstmKernels, FunctionsHaveSmallRelativeErrors) {
  const Floats x = dense_arguments();
  for (const VectorFamily family : families()) {
    SCOPED_TRACE(name_of(family));
    // Below 2^-126 float has fewer digits: a sigmoid is 0 there.
    for (const int64_t gate : {0, 1, 3}) {
      Floats normal;
      std::copy_if(x.begin(), x.end(), std::back_inserter(normal),
                   [](float value) { return value >= -87.2F; });
      expect_function(normal, sigmoids(family, normal, gate), sigmoid, 0);
      expect_function({-88, -90, -100, -1000}, sigmoids(family, {-88, -90, -100, -1000}, gate),
                      sigmoid, 0x1p-126 / 3e-7);
    }
    expect_function(
        x, tanhs(family, x), [](double value) { return std::tanh(value); }, 0);
  }
}

TEST(LstmKernels, FunctionsAtTheEdges) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float largest = std::numeric_limits<float>::max();
  for (const VectorFamily family : families()) {
    SCOPED_TRACE(name_of(family));
    EXPECT_EQ(sigmoids(family, {0.0F, -0.0F, tiny, -tiny, 88, kInfinity, largest, -kInfinity,
                                -largest, -104}),
              (Floats{0.5F, 0.5F, 0.5F, 0.5F, 1, 1, 1, 0, 0, 0}));
    const Floats values = {0.0F, -0.0F,     tiny,       -tiny,   88,
                           -88,  kInfinity, -kInfinity, largest, -largest};
    const Floats expected = {0.0F, -0.0F, tiny, -tiny, 1, -1, 1, -1, 1, -1};
    const Floats actual = tanhs(family, values);
    EXPECT_EQ(actual, expected);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::signbit(actual[i]), std::signbit(values[i])) << values[i];
    }
    for (const float nan : {kNan, -kNan}) {
      for (int64_t gate = 0; gate < 4; ++gate) {
        EXPECT_TRUE(std::isnan(gates_of(family, {1, nan, 1}, gate)[1])) << gate;
        EXPECT_FALSE(std::isnan(gates_of(family, {1, nan, 1}, gate)[2])) << gate;
      }
    }
  }
}

void expect_near(const Floats& actual, const std::vector<double>& expected, double error) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(double{actual[i]}, expected[i], error * (1 + std::abs(expected[i]))) << i;
  }
  EXPECT_EQ(actual.back(), kBehind);
}

// c_t and h_t of one unit in float64.
std::pair<double, double> unit(double i, double f, double g, double o, double before) {
  const double c = sigmoid(f) * before + sigmoid(i) * std::tanh(g);
  return {c, sigmoid(o) * std::tanh(c)};
}

TEST(LstmKernels, StepIsThatOfItsFormula) {
  for (const VectorFamily family : families()) {
    for (const int64_t units : rests()) {
      for (const bool first : {false, true}) {
        SCOPED_TRACE(std::string(name_of(family)) + " " + std::to_string(units));
        const int64_t rows = 3;
        const Floats sums = normal_floats(rows * 4 * units, 1);
        Step step(rows, units, sums, first);
        step.advance(family);
        std::vector<double> c, tanh_c, h;
        for (int64_t place = 0; place < rows * units; ++place) {
          const float* x = sums.data() + place / units * 4 * units + place % units;
          const double before = first ? 0 : double{step.before[std::size_t(place)]};
          const auto [cell, hidden] = unit(x[0], x[units], x[2 * units], x[3 * units], before);
          c.push_back(cell);
          tanh_c.push_back(std::tanh(cell));
          h.push_back(hidden);
        }
        expect_near(step.cells, c, 4e-7);
        expect_near(step.tanhs, tanh_c, 4e-7);
        expect_near(step.hidden, h, 4e-7);
        EXPECT_EQ(step.gates.back(), kBehind);
      }
    }
  }
}

// The slope is that of delta h_t + delta_cells c_t, by differences in float64.
TEST(LstmKernels, GradientIsTheSlope) {
  constexpr double kStep = 1e-6;
  for (const VectorFamily family : families()) {
    for (const int64_t units : rests()) {
      for (const bool first : {false, true}) {
        SCOPED_TRACE(std::string(name_of(family)) + " " + std::to_string(units));
        const int64_t rows = 2;
        const Floats sums = normal_floats(rows * 4 * units, 1);
        Step step(rows, units, sums, first);
        const Floats delta_cells = step.delta_cells;
        step.advance(family);
        step.retreat(family);
        std::vector<double> by_sums(std::size_t(rows * 4 * units)), by_before;
        for (int64_t place = 0; place < rows * units; ++place) {
          const int64_t at = place / units * 4 * units + place % units;
          const auto p = std::size_t(place);
          const auto loss = [&](int64_t which, double move) {
            double x[5];
            for (int64_t gate = 0; gate < 4; ++gate)
              x[gate] = double{sums[std::size_t(at + gate * units)]};
            x[4] = first ? 0 : double{step.before[p]};
            x[which] += move;
            const auto [c, h] = unit(x[0], x[1], x[2], x[3], x[4]);
            return double{step.delta[p]} * h + double{delta_cells[p]} * c;
          };
          const auto slope = [&](int64_t which) {
            return (loss(which, kStep) - loss(which, -kStep)) / (2 * kStep);
          };
          for (int64_t gate = 0; gate < 4; ++gate) {
            by_sums[std::size_t(at + gate * units)] = slope(gate);
          }
          by_before.push_back(slope(4));
        }
        expect_near(step.gates, by_sums, 2e-6);
        expect_near(step.delta_cells, by_before, 2e-6);
      }
    }
  }
}

TEST(LstmKernels, StepHasTheSameBitsInEveryFamily) {
  for (const int64_t units : rests()) {
    for (const bool first : {false, true}) {
      SCOPED_TRACE(units);
      std::vector<Step> steps;
      for (const VectorFamily family : families()) {
        steps.emplace_back(3, units, normal_floats(3 * 4 * units, 1), first);
        steps.back().advance(family);
        steps.back().retreat(family);
        for (Floats Step::*part :
             {&Step::gates, &Step::cells, &Step::tanhs, &Step::hidden, &Step::delta_cells}) {
          EXPECT_EQ(steps.back().*part, steps.front().*part) << name_of(family);
        }
      }
    }
  }
  const Floats x = dense_arguments();
  for (const VectorFamily family : families()) {
    EXPECT_EQ(sigmoids(family, x), sigmoids(families().front(), x)) << name_of(family);
    EXPECT_EQ(tanhs(family, x), tanhs(families().front(), x)) << name_of(family);
  }
}

// Whole numbers, whose sums are exact.
TEST(PackedMatrix, ProductsAreThoseOfPlainLoops) {
  RandomStream random(1, Purpose::kData);
  const auto draw = [&](int64_t size) {
    Floats values;
    for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(random.below(9) - 4));
    return values;
  };
  for (const int64_t n : rests()) {
    for (const auto& [rows, k] : {std::pair<int64_t, int64_t>{1, 1}, {10, 7}, {13, 40}, {25, 3}}) {
      const Floats w = draw(k * n), x = draw(rows * k), old = draw(rows * n);
      Floats start = draw(n), transposed(w.size());
      start.resize(std::size_t(whole_lines(n)));
      for (int64_t i = 0; i < k * n; ++i) {
        transposed[std::size_t(i % n * k + i / n)] = w[std::size_t(i)];
      }
      for (const VectorFamily family : families()) {
        SCOPED_TRACE(::testing::Message()
                     << name_of(family) << " " << rows << " " << k << " " << n);
        for (const bool transpose : {false, true}) {
          PackedMatrix matrix(convolution_kernels(family));
          matrix.load(draw(90 * 90).data(), 90, 90);  // which leaves nothing behind
          if (transpose) {
            matrix.load_transposed(transposed.data(), n, k);
          } else {
            matrix.load(w.data(), k, n);
          }
          for (const int form : {0, 1, 2}) {
            Floats expected = form == 0 ? Floats(old.size()) : old;
            for (int64_t i = 0; i < rows * n; ++i) {
              float& sum = expected[std::size_t(i)];
              if (form == 1) sum = start[std::size_t(i % n)];
              for (int64_t j = 0; j < k; ++j) {
                sum += x[std::size_t(i / n * k + j)] * w[std::size_t(j * n + i % n)];
              }
            }
            Floats y = old;
            y.push_back(kBehind);
            expected.push_back(kBehind);
            if (form == 2) {
              matrix.add_product(x.data(), rows, y.data());
            } else {
              matrix.multiply(x.data(), rows, form == 1 ? start.data() : nullptr, y.data());
            }
            EXPECT_EQ(y, expected);
          }
        }
      }
    }
  }
}

// Numbers that round, and the same rows alone: sums have one order.
TEST(PackedMatrix, HasTheSameBitsInEveryFamilyAndForAnyRows) {
  constexpr int64_t kRows = 23, kInner = 70;
  for (const int64_t n : rests()) {
    const Floats w = normal_floats(kInner * n, 1), x = normal_floats(kRows * kInner, 2);
    Floats first;
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::Message() << name_of(family) << " " << n);
      PackedMatrix matrix(convolution_kernels(family));
      matrix.load(w.data(), kInner, n);
      Floats together(std::size_t(kRows * n)), alone(together.size());
      matrix.multiply(x.data(), kRows, nullptr, together.data());
      for (int64_t r = 0; r < kRows; ++r) {
        matrix.multiply(x.data() + r * kInner, 1, nullptr, alone.data() + r * n);
      }
      if (first.empty()) first = together;
      EXPECT_EQ(together, first);
      EXPECT_EQ(alone, first);
    }
  }
}

ModelOptions options() {
  ModelOptions small = model_options("lstm", "cross-entropy");
  small.vocabulary = 11;
  small.embedding = 6;
  small.units = 5;
  return small;
}

struct Pass {
  EvaluationSums sums;
  Floats outputs;
  LossAndGradient found;
};

Pass pass(const Samples& samples, int64_t threads) {
  set_model_threads(threads);
  const auto model = make_model(options(), {6}, 5);
  const Floats row = initial_row(*model);
  Pass result;
  result.outputs.resize(std::size_t(5 * samples.rows));
  result.sums = model->evaluate(row, samples.batch(), {.outputs = result.outputs.data()});
  result.found = loss_and_gradient(*model, row, samples.batch());
  set_model_threads(1);
  return result;
}

// Samples have a thread each at most; OpenBLAS's threads, which compute the weights' gradients, may
// add in another order.
TEST(Lstm, ThreadsComputeTheSame) {
  for (const int64_t rows : {1, 2, 7, 40}) {
    const Samples samples({6}, 5, rows, 1, 11);
    const Pass one = pass(samples, 1);
    for (const int64_t threads : {2, 3, 5}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows on " << threads);
      const Pass several = pass(samples, threads);
      EXPECT_EQ(several.outputs, one.outputs);
      EXPECT_EQ(several.sums.loss, one.sums.loss);
      EXPECT_EQ(several.found.loss, one.found.loss);
      expect_close(make_model(options(), {6}, 5)->layout(), several.found.gradient,
                   one.found.gradient, 1e-6);
    }
  }
}

TEST(Lstm, NeedsNoLibTorch) {
  EXPECT_FALSE(needs_torch("lstm"));
  EXPECT_TRUE(needs_torch("graph"));
  const auto model = make_model(options(), {6}, 5);
  const Samples samples({6}, 5, 4, 1, 11);
  Floats row = initial_row(*model);
  RandomStream noise = noise_stream();
  model->sgd_step(row, samples.batch(), noise, 0.1, 0);
  model->evaluate(row, samples.batch());
  EXPECT_FALSE(uses_torch());
}

}  // namespace
}  // namespace hanse
