// The functions of a network's kernels against what they are by definition.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/device/work.hpp"
#include "work_runs.hpp"

namespace hanse {
namespace {

TEST(Divider, DividesWhatIsBelowTwoToTheThirtyFirst) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  RandomStream stream(2, Purpose::kData);
  std::vector<int32_t> divisors{1,   2,     3,     5,     7,       10,        62,   641,
                                784, 65535, 65536, 65537, 1 << 30, kMost - 1, kMost};
  for (int i = 0; i < 200; ++i) divisors.push_back(1 + static_cast<int32_t>(stream.below(kMost)));
  for (const int32_t divisor : divisors) {
    const Divider by(divisor);
    EXPECT_EQ(by, divisor);
    std::vector<int32_t> values{0,
                                1,
                                divisor - 1,
                                divisor,
                                kMost,
                                kMost - 1,
                                kMost / divisor * divisor,
                                kMost / divisor * divisor - 1};
    for (int i = 0; i < 100; ++i) values.push_back(static_cast<int32_t>(stream.below(kMost)));
    for (const int32_t n : values) {
      const auto [quotient, rest] = by.split(n);
      EXPECT_TRUE(quotient == n / divisor && rest == n % divisor) << n << " / " << divisor;
    }
  }
}

struct Unrolling {
  Patches of;
  int64_t clients, batch, per;
};

// Calls f(image's place or -1, column's place) for each value of the columns.
template <class F>
void for_each_column(const Unrolling& c, const std::vector<int64_t>& places, F f) {
  const Patches& of = c.of;
  int64_t at = 0;
  for (int64_t part = 0; part < c.clients * c.batch / c.per; ++part) {
    for (int64_t row = 0; row < of.rows(); ++row) {
      const int64_t channel = row / of.taps(), tap = row % of.taps();
      for (int64_t b = 0; b < c.per; ++b) {
        for (int64_t pixel = 0; pixel < of.out_pixels(); ++pixel, ++at) {
          const int64_t y = pixel / of.out_width() + tap / of.kernel - of.padding;
          const int64_t x = pixel % of.out_width() + tap % of.kernel - of.padding;
          const bool is_inside = y >= 0 && y < of.height && x >= 0 && x < of.width;
          const int64_t sample = places[static_cast<std::size_t>(part * c.per + b)];
          f(is_inside ? ((sample * of.channels + channel) * of.height + y) * of.width + x : -1, at);
        }
      }
    }
  }
}

void expect_unrolling(const Unrolling& c) {
  const int64_t samples = c.clients * c.batch;
  const int64_t values = samples * c.of.channels * c.of.pixels();
  const int64_t all = samples * c.of.rows() * c.of.out_pixels();
  std::vector<int64_t> order, reversed;
  for (int64_t i = 0; i < samples; ++i) {
    order.push_back(i);
    reversed.push_back(samples - 1 - i);
  }
  const Row images = drawn(values);
  for (const auto& places : {order, reversed}) {
    Row columns(static_cast<std::size_t>(all), 9);
    const ColumnsWork unroll{.of = PatchColumns(c.of, c.per),
                             .batch = c.batch,
                             .images = images.data(),
                             .places = places == order ? nullptr : places.data(),
                             .columns = columns.data()};
    run_backwards(unroll, unroll.items(c.clients));
    int64_t wrong = 0;
    for_each_column(c, places, [&](int64_t image, int64_t column) {
      wrong += columns[static_cast<std::size_t>(column)] !=
               (image < 0 ? 0 : images[static_cast<std::size_t>(image)]);
    });
    EXPECT_EQ(wrong, 0) << c.of.kernel << " " << c.of.padding << " " << c.per;
  }
  const Row columns = drawn(all, 2);
  Row expected(images.size()), got(images.size(), 9);
  const ImagesWork back{PatchColumns(c.of, c.per), c.batch, columns.data(), got.data()};
  run_backwards(back, back.items(c.clients));
  for_each_column(c, order, [&](int64_t image, int64_t column) {
    if (image >= 0) {
      expected[static_cast<std::size_t>(image)] += columns[static_cast<std::size_t>(column)];
    }
  });
  EXPECT_EQ(got, expected) << c.of.kernel << " " << c.of.padding << " " << c.per;  // one order
}

TEST(ColumnsWork, AndItsWayBackAreThoseOfTheDefinition) {
  for (const int64_t kernel : {1, 2, 3, 5, 6, 7}) {
    for (int64_t padding = 0; padding < kernel; padding += 2) {
      for (const int64_t channels : {1, 3}) {
        expect_unrolling({{channels, 8, 7, kernel, padding}, 2, 6, 6});
        expect_unrolling({{channels, 7, 9, kernel, padding}, 3, 6, 2});
        expect_unrolling({{channels, 7, 8, kernel, padding}, 2, 7, 1});
      }
    }
  }
}

TEST(GatherWork, AddsWhatSpreadWorkHandedOut) {
  for (const int parts : {1, 2, 3, 4, 5, 9}) {
    const int64_t clients = 3, n = 7, stride = 11;
    const Row weights = drawn(clients * stride);
    Row spread(static_cast<std::size_t>(clients * parts * n), 9);
    const SpreadWork hand_out{n, parts, weights.data(), stride, spread.data()};
    run_backwards(hand_out, hand_out.items(clients));
    for (int64_t i = 0; i < clients * parts * n; ++i) {
      EXPECT_EQ(spread[static_cast<std::size_t>(i)],
                weights[static_cast<std::size_t>(i / n / parts * stride + i % n)]);
    }
    Row sums(weights.size(), 9), expected(weights.size(), 9);
    const Row found = drawn(clients * parts * n, 3);
    const GatherWork add{n, parts, found.data(), sums.data(), stride};
    run_backwards(add, add.items(clients));
    for (int64_t client = 0; client < clients; ++client) {
      for (int64_t i = 0; i < n; ++i) {
        float& sum = expected[static_cast<std::size_t>(client * stride + i)] = 0;
        for (int64_t part = 0; part < parts; ++part) {
          sum += found[static_cast<std::size_t>((client * parts + part) * n + i)];
        }
      }
    }
    EXPECT_EQ(sums, expected) << parts;
  }
}

void expect_products(int32_t batch, int32_t units, int32_t inputs) {
  const int64_t clients = 2, parts = ProductWork::parts_of(inputs), stride = units * inputs + 3;
  const Row input = drawn(clients * batch * inputs), weights = drawn(clients * stride, 2);
  Row found(static_cast<std::size_t>(clients * parts * batch * units), 9);
  const ProductWork work{.parts = parts,
                         .tiles = ProductWork::tiles_of(units),
                         .batch = batch,
                         .units = units,
                         .inputs = inputs,
                         .input = input.data(),
                         .weights = weights.data(),
                         .stride = stride,
                         .found = found.data()};
  run_backwards(work, work.blocks(clients));
  double most = 0;
  for (int64_t at = 0; at < std::ssize(found); ++at) {
    const int64_t unit = at % units, b = at / units % batch, part = at / units / batch % parts;
    const int64_t client = at / units / batch / parts;
    const float* x = input.data() + (client * batch + b) * inputs;
    const float* w = weights.data() + client * stride + unit * inputs;
    double sum = 0;
    for (int64_t i = part * work.kPart; i < std::min<int64_t>((part + 1) * work.kPart, inputs);
         ++i) {
      sum += static_cast<double>(x[i]) * static_cast<double>(w[i]);
    }
    most = std::max(most, std::abs(static_cast<double>(found[static_cast<std::size_t>(at)]) - sum));
  }
  EXPECT_LE(most, 1e-4) << batch << " " << units << " " << inputs;
}

TEST(ProductWork, HasTheProductsOfEachPart) {
  for (const int32_t batch : {1, 7, 20, 21, 33}) {
    for (const int32_t units : {1, 10, 32, 62}) {
      for (const int32_t inputs : {1, 127, 256, 1023}) expect_products(batch, units, inputs);
    }
  }
}

TEST(UnitsBackWork, AddsTheBiasUpOverTheBatch) {
  for (const int32_t batch : {1, 7, 8, 33}) {
    const int64_t clients = 2, units = 5, stride = 9;
    const Row values = drawn(clients * batch * units), mask = drawn(clients * batch * units, 2);
    Row delta = drawn(clients * batch * units, 3);
    Row sums(clients * stride, 9), expected_sums(sums), expected(delta);
    for (int64_t client = 0; client < clients; ++client) {
      for (int64_t unit = 0; unit < units; ++unit) {
        float& sum = expected_sums[static_cast<std::size_t>(client * stride + unit)] = 0;
        for (int64_t b = 0; b < batch; ++b) {
          const auto at = static_cast<std::size_t>((client * batch + b) * units + unit);
          expected[at] = values[at] <= 0 ? 0 : expected[at] * mask[at];
          sum += expected[at];
        }
      }
    }
    const UnitsBackWork work{.units = units,
                             .batch = batch,
                             .values = values.data(),
                             .mask = mask.data(),
                             .delta = delta.data(),
                             .bias_gradient = sums.data(),
                             .bias_stride = stride};
    run_backwards(work, work.items(clients));
    EXPECT_EQ(delta, expected) << batch;
    EXPECT_EQ(sums, expected_sums) << batch;
  }
}

// The loss of a sample and its gradient, in float64.
double cross_entropy(const float* z, int64_t outputs, int64_t label, std::vector<double>& slope) {
  double sum = 0;
  const double largest = *std::max_element(z, z + outputs);
  for (int64_t i = 0; i < outputs; ++i) sum += std::exp(static_cast<double>(z[i]) - largest);
  for (int64_t i = 0; i < outputs; ++i) {
    slope[static_cast<std::size_t>(i)] = std::exp(static_cast<double>(z[i]) - largest) / sum;
  }
  slope[static_cast<std::size_t>(label)] -= 1;
  return std::log(sum) - (static_cast<double>(z[label]) - largest);
}

void expect_losses(int64_t batch, int64_t outputs, int32_t parts = 1) {
  const std::vector<int64_t> counts{batch, 0, (batch + 1) / 2};
  const auto clients = std::ssize(counts);
  const int64_t stride = outputs + 2;
  const Row bias = drawn(clients * stride, 2);
  const int64_t n = batch * outputs;
  Row found = drawn(clients * parts * n), given(static_cast<std::size_t>(clients * n), 0);
  for (int64_t i = 0; i < clients * parts * n; ++i) {
    given[static_cast<std::size_t>(i / n / parts * n + i % n)] +=
        found[static_cast<std::size_t>(i)];
  }
  Row logits(given.size(), 9), sums(bias.size(), 9);
  if (parts == 1) logits = found;  // in place
  std::vector<int64_t> places;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < clients * batch; ++i) {
    places.push_back(clients * batch - 1 - i);
    labels.push_back(static_cast<int32_t>(i * 7 % outputs));
  }
  std::vector<double> means(counts.size(), 9), totals{1, 2, 3};
  const LossWork work{.rule = LossRule::kCrossEntropy,
                      .batch = batch,
                      .outputs = outputs,
                      .counts = counts.data(),
                      .places = places.data(),
                      .labels = labels.data(),
                      .targets = nullptr,
                      .bias = bias.data(),
                      .bias_gradient = sums.data(),
                      .bias_stride = stride,
                      .parts = parts,
                      .found = parts == 1 ? logits.data() : found.data(),
                      .logits = logits.data(),
                      .means = means.data(),
                      .totals = totals.data()};
  run_backwards(work, clients);
  std::vector<double> slope(static_cast<std::size_t>(outputs));
  Row z(slope.size());
  for (int64_t client = 0; client < clients; ++client) {
    const auto own = static_cast<std::size_t>(client);
    std::vector<double> sum(slope.size());
    double mean = 0;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t sample = client * batch + b;
      for (int64_t i = 0; i < outputs; ++i) {
        z[static_cast<std::size_t>(i)] = given[static_cast<std::size_t>(sample * outputs + i)] +
                                         bias[static_cast<std::size_t>(client * stride + i)];
      }
      const auto place = static_cast<std::size_t>(places[static_cast<std::size_t>(sample)]);
      const double loss = cross_entropy(z.data(), outputs, labels[place], slope);
      const bool counted = b < counts[own];
      if (counted) mean += loss / static_cast<double>(counts[own]);
      for (std::size_t i = 0; i < slope.size(); ++i) {
        const double expected = counted ? slope[i] / static_cast<double>(counts[own]) : 0;
        const auto at = static_cast<std::size_t>(sample * outputs) + i;
        EXPECT_NEAR(static_cast<double>(logits[at]), expected, 1e-6) << batch << " " << outputs;
        sum[i] += expected;
      }
    }
    EXPECT_NEAR(means[own], mean, 1e-6 * mean) << batch << " " << outputs;
    EXPECT_EQ(totals[own], static_cast<double>(client + 1) + means[own]);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(sums[own * static_cast<std::size_t>(stride) + i]), sum[i],
                  1e-6);
    }
  }
}

TEST(LossWork, HasMeansGradientsAndTheBiasOfAnyNumberOfSamplesAndOutputs) {
  for (const int64_t batch : {1, 7, 33, 70}) {
    for (const int64_t outputs : {1, 2, 10, 62, 1000}) expect_losses(batch, outputs);
  }
}

TEST(LossWork, AddsThePartsOfLogits) {
  for (const int32_t parts : {2, 12, 13, 14, 27}) {
    for (const int64_t outputs : {1, 8, 9, 16, 17}) expect_losses(33, outputs, parts);
  }
}

struct Descending {
  StepNumbers numbers;
  bool anchor = false, own_anchor = false, pulls = false, clipped = false, sums = false;
};

float direction_of(const StepNumbers& s, float root, float g, float& one, float& two) {
  switch (s.kind) {
    case StepRule::kSgd: return direction<StepRule::kSgd>(s, root, g, one, two);
    case StepRule::kMomentum: return direction<StepRule::kMomentum>(s, root, g, one, two);
    case StepRule::kAdam: return direction<StepRule::kAdam>(s, root, g, one, two);
    case StepRule::kAdagrad: return direction<StepRule::kAdagrad>(s, root, g, one, two);
    case StepRule::kRmsprop: return direction<StepRule::kRmsprop>(s, root, g, one, two);
    case StepRule::kRmspropMomentum: break;
  }
  return direction<StepRule::kRmspropMomentum>(s, root, g, one, two);
}

void expect_descent(const Descending& c, int64_t clients) {
  const int64_t n = 9, trained = 7, moments = moments_of(c.numbers.kind);
  Row gradient = drawn(clients * n);
  const Row anchor = drawn(clients * n, 2), pulls = drawn(clients * n, 3);
  Row rows = drawn(clients * n, 4), first = drawn(clients * n, 5), second = drawn(clients * n, 6);
  for (Row* squares : {&first, &second}) {
    for (float& value : *squares) value *= value;
  }
  const bool is_sgd = c.numbers.kind == StepRule::kSgd || c.numbers.kind == StepRule::kMomentum;
  std::vector<StepSize> sizes;
  Row clipped;
  for (int64_t k = 0; k < clients; ++k) {
    const float own = 1 + 0.1F * static_cast<float>(k);
    sizes.push_back(
        {0.1F * own, k % 3 == 1 ? 0 : 2 / own, is_sgd ? 1 : 1 - 0.01F * own, 1.5F * own});
    clipped.push_back(0.75F * sizes.back().scale);
  }
  if (clients > 1) gradient[n] = std::numeric_limits<float>::infinity();  // of one that stays
  Row expected = rows, expected_first = first, expected_second = second;
  Row expected_gradient = gradient;
  for (int64_t at = 0; at < clients * n; ++at) {
    const auto i = static_cast<std::size_t>(at), client = static_cast<std::size_t>(at / n);
    const StepSize& size = sizes[client];
    if (size.scale == 0 || at % n >= trained) continue;
    const float scale = c.clipped ? clipped[client] : size.scale;
    const float* origin = anchor.data() + (c.own_anchor ? at : at % n);
    const float g = pulled_gradient(c.numbers.rule, scale * gradient[i], expected[i],
                                    c.pulls ? &pulls[i] : nullptr, c.anchor ? origin : nullptr);
    expected[i] =
        size.keep * expected[i] -
        size.rate * direction_of(c.numbers, size.root, g, expected_first[i], expected_second[i]);
    if (c.sums) expected_gradient[i] = 0;
  }
  const DescentWork work{.numbers = c.numbers,
                         .gradient = gradient.data(),
                         .anchor = c.anchor ? anchor.data() : nullptr,
                         .pulls = c.pulls ? pulls.data() : nullptr,
                         .sizes = sizes.data(),
                         .scales = c.clipped ? clipped.data() : &sizes.front().scale,
                         .first = moments > 0 ? first.data() : nullptr,
                         .second = moments > 1 ? second.data() : nullptr,
                         .rows = rows.data(),
                         .spent = c.sums ? gradient.data() : nullptr,
                         .clients = clients,
                         .n = n,
                         .trained = trained,
                         .anchor_stride = c.own_anchor ? n : 0,
                         .scale_stride = c.clipped ? 1 : int64_t{sizeof(StepSize) / sizeof(float)}};
  run_backwards(work, work.items());
  EXPECT_EQ(rows, expected) << clients;
  EXPECT_EQ(first, expected_first) << clients;
  EXPECT_EQ(second, expected_second) << clients;
  EXPECT_EQ(gradient, expected_gradient) << clients;
}

TEST(DescentWork, MovesEachClientByItsRule) {
  constexpr auto kMomentum = StepRule::kMomentum;
  for (const int64_t clients : {1, 3, 4, 5, 8, 9}) {
    expect_descent({}, clients);
    expect_descent(
        {.numbers = {.kind = kMomentum,
                     .rule = {.weight_decay = 0.1F, .momentum = 0.9F, .nesterov = true}}},
        clients);
    expect_descent({.numbers = {.kind = kMomentum, .rule = {.momentum = 0.9F, .mu = 0.5F}},
                    .anchor = true,
                    .pulls = true},
                   clients);
    expect_descent({.numbers = {.rule = {.mu = 0.5F}}, .anchor = true, .own_anchor = true},
                   clients);
    expect_descent({.numbers = {}, .clipped = true, .sums = true}, clients);
    for (const StepRule rule :
         {StepRule::kAdam, StepRule::kAdagrad, StepRule::kRmsprop, StepRule::kRmspropMomentum}) {
      const StepNumbers numbers{.kind = rule,
                                .rule = {.weight_decay = 0.2F, .momentum = 0.7F},
                                .beta1 = 0.8F,
                                .rest1 = 0.2F,
                                .beta2 = 0.6F,
                                .rest2 = 0.4F,
                                .eps = 1e-3F};
      expect_descent({.numbers = numbers, .clipped = true}, clients);
    }
  }
}

// A client without samples has any gradient.
TEST(AccumulateWork, AddsGradientsBySamplesAndSlopes) {
  const int64_t clients = 3, n = 5;
  Row gradient = drawn(clients * n), sums = drawn(clients * n, 2);
  gradient[n] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int64_t> counts{4, 0, 3};
  const std::vector<double> slopes{0.5, 7, 3};
  for (const double* some : {static_cast<const double*>(nullptr), slopes.data()}) {
    Row expected = sums;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t client = i / n;
      if (client == 1) continue;
      const double weight = static_cast<double>(counts[client]) * (some ? some[client] : 1);
      expected[i] += static_cast<float>(weight) * gradient[i];
    }
    run_backwards(AccumulateWork{.gradient = gradient.data(),
                                 .counts = counts.data(),
                                 .slopes = some,
                                 .sums = sums.data(),
                                 .clients = clients,
                                 .n = n},
                  n);
    EXPECT_EQ(sums, expected);
  }
}

}  // namespace
}  // namespace hanse
