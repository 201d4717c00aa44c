// The transformer: its kernels for every family of processors, and the network, against slow loops
// in float64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/model/row_step.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"
#include "model/layers/dropout.hpp"
#include "support.hpp"

namespace hanse {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats normal_floats(int64_t n, uint64_t seed, double scale = 1) {
  RandomStream random(seed, Purpose::kData);
  Floats values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(scale * random.normal()));
  return values;
}

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// --- The reference: one sample after the other, all in float64.

// y [rows, out] = x W^T + b, and back.
struct Dense {
  const float *w, *b;
  int64_t out, in;
};

Doubles applied(const Dense& l, const Doubles& x) {
  const int64_t rows = std::ssize(x) / l.in;
  Doubles y(at(rows * l.out));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < l.out; ++o) {
      double sum = l.b[o];
      for (int64_t i = 0; i < l.in; ++i) sum += x[at(r * l.in + i)] * l.w[o * l.in + i];
      y[at(r * l.out + o)] = sum;
    }
  }
  return y;
}

Doubles normed(const Doubles& x, const float* weight, const float* bias, int64_t d) {
  Doubles y = x;
  for (int64_t first = 0; first < std::ssize(x); first += d) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < d; ++i) mean += x[at(first + i)] / static_cast<double>(d);
    for (int64_t i = 0; i < d; ++i) square += std::pow(x[at(first + i)] - mean, 2);
    const double deviation = std::sqrt(square / static_cast<double>(d) + 1e-5);
    for (int64_t i = 0; i < d; ++i) {
      y[at(first + i)] = (x[at(first + i)] - mean) / deviation * weight[i] + bias[i];
    }
  }
  return y;
}

struct Head {
  int64_t length, width, stride;
  bool causal;
};

// [length, width] of q, k, v `stride` apart, with the shares times a mask.
template <class T>
Doubles attended(const Head& h, const T* q, const T* k, const T* v, const float* mask) {
  Doubles y(at(h.length * h.width));
  for (int64_t i = 0; i < h.length; ++i) {
    const int64_t seen = h.causal ? i + 1 : h.length;
    Doubles shares(at(seen));
    double sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double score = 0;
      for (int64_t c = 0; c < h.width; ++c) {
        score +=
            static_cast<double>(q[i * h.stride + c]) * static_cast<double>(k[j * h.stride + c]);
      }
      sum += shares[at(j)] = std::exp(score / std::sqrt(static_cast<double>(h.width)));
    }
    for (int64_t j = 0; j < seen; ++j) {
      const double factor = mask != nullptr ? mask[i * h.length + j] : 1;
      for (int64_t c = 0; c < h.width; ++c) {
        y[at(i * h.width + c)] +=
            shares[at(j)] / sum * factor * static_cast<double>(v[j * h.stride + c]);
      }
    }
  }
  return y;
}

// The mean loss of a batch in float64; the masks of dropout come from the stream in their order.
struct SlowTransformer {
  ModelOptions options;
  int64_t length, classes;
  bool every;

  // Each value of x times its mask.
  void drop(Doubles& x, RandomStream* noise) const {
    const Floats mask = drawn(std::ssize(x), noise);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= mask[i];
  }
  Floats drawn(int64_t size, RandomStream* noise) const {
    Floats mask(at(size), 1.0F);
    if (noise != nullptr && options.dropout > 0) draw_mask(options.dropout, *noise, mask);
    return mask;
  }

  // x [rows, length, d] behind a layer whose tensors begin at w.
  Doubles encode(const Doubles& x, const float*& w, RandomStream* noise) const {
    const int64_t d = options.embedding, units = options.units, width = d / options.heads;
    const auto take = [&](int64_t size) { return std::exchange(w, w + size); };
    const auto dense = [&](int64_t out, int64_t in) {
      const float* weight = take(out * in);
      return Dense{weight, take(out), out, in};
    };
    const Dense in_projection = dense(3 * d, d), out_projection = dense(d, d);
    const Dense linear1 = dense(units, d), linear2 = dense(d, units);
    const float *weight1 = take(d), *bias1 = take(d), *weight2 = take(d), *bias2 = take(d);
    const Doubles qkv = applied(in_projection, x);
    const int64_t rows = std::ssize(x) / (length * d), pairs = length * length;
    const Floats mask = drawn(rows * options.heads * pairs, noise);
    Doubles heads(x.size());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < options.heads; ++h) {
        const double* q = qkv.data() + r * length * 3 * d + h * width;
        const Doubles y = attended({length, width, 3 * d, every}, q, q + d, q + 2 * d,
                                   mask.data() + (r * options.heads + h) * pairs);
        for (int64_t i = 0; i < length * width; ++i) {
          heads[at((r * length + i / width) * d + h * width + i % width)] = y[at(i)];
        }
      }
    }
    const auto residual = [&](const Doubles& from, Doubles more) {
      drop(more, noise);
      for (std::size_t i = 0; i < more.size(); ++i) more[i] += from[i];
      return more;
    };
    const Doubles y = normed(residual(x, applied(out_projection, heads)), weight1, bias1, d);
    Doubles hidden = applied(linear1, y);
    for (double& unit : hidden) unit = std::max(unit, 0.0);
    drop(hidden, noise);
    return normed(residual(y, applied(linear2, hidden)), weight2, bias2, d);
  }

  Doubles logits(const Floats& row, const Batch& batch, RandomStream* noise) const {
    const int64_t d = options.embedding;
    Doubles x;
    for (int64_t token = 0; token < batch.rows * length; ++token) {
      for (int64_t i = 0; i < d; ++i) {
        const double power = static_cast<double>(i / 2 * 2) / static_cast<double>(d);
        const double angle = static_cast<double>(token % length) / std::pow(10000.0, power);
        x.push_back(row[at(static_cast<int64_t>(batch.features[token]) * d + i)] * std::sqrt(d) +
                    (i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
      }
    }
    drop(x, noise);
    const float* w = row.data() + options.vocabulary * d;
    for (int64_t layer = 0; layer < options.layers; ++layer) x = encode(x, w, noise);
    if (!every) {
      Doubles means(at(batch.rows * d));
      for (int64_t i = 0; i < std::ssize(x); ++i) {
        means[at(i / (length * d) * d + i % d)] += x[at(i)] / static_cast<double>(length);
      }
      x = means;
    }
    return applied(Dense{w, w + classes * d, classes, d}, x);
  }

  double loss(const Floats& row, const Batch& batch, RandomStream* noise) const {
    const Doubles z = logits(row, batch, noise);
    const int64_t positions = every ? length : 1;
    double all = 0;
    for (int64_t r = 0; r < batch.rows; ++r) {
      double sum = 0, labels = 0;
      for (int64_t place = r * positions; place < (r + 1) * positions; ++place) {
        if (batch.labels[place] < 0) continue;
        double total = 0;
        for (int64_t c = 0; c < classes; ++c) total += std::exp(z[at(place * classes + c)]);
        sum += std::log(total) - z[at(place * classes + batch.labels[place])];
        ++labels;
      }
      if (labels > 0) all += sum / labels;
    }
    return all / static_cast<double>(batch.rows);
  }
};

struct Case {
  int64_t length, heads, d, units, rows, layers;
  bool every = false;
  double dropout = 0;

  LabelForm form() const { return every ? LabelForm(4, length) : LabelForm(4); }
  ModelOptions options(Precision precision = Precision::kFloat32) const {
    ModelOptions made = model_options("transformer", "cross-entropy");
    made.vocabulary = 7;
    made.embedding = d;
    made.units = units;
    made.layers = layers;
    made.heads = heads;
    made.dropout = dropout;
    made.precision = precision;
    return made;
  }
  std::unique_ptr<Model> make(Precision precision = Precision::kFloat32) const {
    return make_model(options(precision), {length}, form());
  }
  Samples samples() const { return Samples({length}, form(), rows, 3, 7); }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "length " << c.length << ", " << c.heads << " heads, d " << c.d << ", units " << c.units
       << ", rows " << c.rows << ", layers " << c.layers << (c.every ? ", every" : "")
       << ", dropout " << c.dropout;
}

const std::vector<Case> kCases = {
    {1, 1, 6, 5, 1, 1},
    {3, 2, 6, 5, 7, 2},
    {17, 3, 6, 5, 1, 1},
    {17, 2, 12, 5, 7, 3},
    {3, 3, 12, 5, 7, 1, true},
    {17, 1, 12, 5, 1, 2, true},
    {17, 2, 6, 5, 7, 1, true},
    {3, 1, 12, 5, 7, 2, false, 0.3},
    {17, 2, 6, 5, 1, 1, true, 0.3},
    {33, 1, 20, 18, 2, 1, true},
    {26, 1, 66, 35, 2, 1},
};

// A row whose norms and biases are no constants.
Floats some_row(const Model& model) {
  Floats row = initial_row(model);
  const Floats more = normal_floats(std::ssize(row), 5, 0.2);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += more[i];
  return row;
}

// Every tensor's gradient along itself and along a random direction, by differences in float64.
TEST(Transformer, GradientsAreThoseOfSlowLoops) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = c.make();
    const Samples samples = c.samples();
    const Floats row = some_row(*model);
    const SlowTransformer slow{c.options(), c.length, 4, c.every};
    const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
    const auto slow_loss = [&](const Floats& place) {
      RandomStream noise = noise_stream();
      return slow.loss(place, samples.batch(), &noise);
    };
    EXPECT_NEAR(found.loss, slow_loss(row), 3e-6 * (1 + found.loss));
    const Floats random = normal_floats(std::ssize(row), 9);
    for (const ParameterSlot& slot : model->layout().slots()) {
      double norm = 0;
      for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
        norm = std::hypot(norm, found.gradient[at(i)]);
      }
      for (const Floats* direction : {&found.gradient, &random}) {
        double size = 1e-6;
        for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
          size = std::hypot(size, (*direction)[at(i)]);
        }
        const double h = 3e-5 / size;  // the steps are those that the row really makes
        Floats up = row, down = row;
        double expected = 0, step = 0;
        for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
          const double move = h * (*direction)[at(i)];
          up[at(i)] = static_cast<float>(row[at(i)] + move);
          down[at(i)] = static_cast<float>(row[at(i)] - move);
          const double moved = double{up[at(i)]} - double{down[at(i)]};
          expected += moved * found.gradient[at(i)];
          step = std::hypot(step, moved);
        }
        EXPECT_NEAR(slow_loss(up) - slow_loss(down), expected, step * (5e-4 * norm + 2e-6))
            << slot.name << (direction == &random ? " at random" : "");
      }
    }
  }
}

TEST(Transformer, EvaluatesAsSlowLoopsDo) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto model = c.make();
    const Samples samples = c.samples();
    const Floats row = some_row(*model);
    const Doubles expected =
        SlowTransformer{c.options(), c.length, 4, c.every}.logits(row, samples.batch(), nullptr);
    Floats found(expected.size());
    model->evaluate(row, samples.batch(), {.outputs = found.data()});
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST(Transformer, ThreadsComputeTheSame) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const Samples samples = c.samples();
    const auto pass = [&](int64_t threads) {
      set_model_threads(threads);
      const auto model = c.make();
      const LossAndGradient found = loss_and_gradient(*model, some_row(*model), samples.batch());
      set_model_threads(1);
      return found;
    };
    const LossAndGradient one = pass(1);
    for (const int64_t threads : {2, 3}) {
      const LossAndGradient several = pass(threads);
      EXPECT_EQ(several.loss, one.loss);
      expect_close(c.make()->layout(), several.gradient, one.gradient, 1e-6);
    }
  }
}

TEST(Transformer, NeedsNoLibTorch) {
  EXPECT_FALSE(needs_torch("transformer"));
  const Case c = kCases[4];
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    const auto model = c.make(precision);
    loss_and_gradient(*model, some_row(*model), c.samples().batch());
    model->evaluate(some_row(*model), c.samples().batch());
  }
  EXPECT_FALSE(uses_torch());
}

// Stores the gradients of tensors that it wants.
class SomeTensors final : public RowStep {
 public:
  SomeTensors(const ParameterLayout& layout, std::vector<bool> wanted)
      : layout_(layout), wanted_(std::move(wanted)), gradient(at(layout.n_params()), 0.0F) {}

  bool wants(int64_t offset) const override {
    const auto& slots = layout_.slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (offset >= slots[i].offset && offset < slots[i].offset + slots[i].size) return wanted_[i];
    }
    return false;
  }
  void apply(int64_t offset, const float* values, int64_t size) override {
    std::copy_n(values, size, gradient.begin() + offset);
  }

 private:
  const ParameterLayout& layout_;
  std::vector<bool> wanted_;

 public:
  Floats gradient;
};

// One tensor is wanted, or all from one on.
TEST(Transformer, GradientsOfSomeTensorsAreThoseOfAll) {
  const Case c{5, 2, 6, 5, 3, 2, true, 0.2};
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    const auto model = c.make(precision);
    const auto& slots = model->layout().slots();
    const Samples samples = c.samples();
    const auto gradient = [&](std::vector<bool> wanted) {
      SomeTensors step(model->layout(), std::move(wanted));
      Floats row = some_row(*model);
      RandomStream noise = noise_stream();
      c.make(precision)->step_by(row, samples.batch(), noise, step);  // which keeps no deltas
      return step.gradient;
    };
    const Floats all = gradient(std::vector<bool>(slots.size(), true));
    for (std::size_t i = 0; i < slots.size(); ++i) {
      EXPECT_NE(*std::max_element(all.begin() + slots[i].offset,
                                  all.begin() + slots[i].offset + slots[i].size),
                0)
          << slots[i].name;
      for (const bool above : {false, true}) {
        std::vector<bool> wanted(slots.size(), false);
        wanted[i] = true;
        for (std::size_t j = i; above && j < slots.size(); ++j) wanted[j] = true;
        const Floats found = gradient(wanted);
        for (std::size_t j = 0; j < slots.size(); ++j) {
          if (!wanted[j]) continue;
          const auto first = slots[j].offset, end = first + slots[j].size;
          EXPECT_TRUE(std::equal(all.begin() + first, all.begin() + end, found.begin() + first))
              << slots[j].name << " with " << slots[i].name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hanse
