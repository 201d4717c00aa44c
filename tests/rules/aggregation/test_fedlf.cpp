#include <limits>

#include <gtest/gtest.h>

#include "rules/aggregation/rows.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/multi_objective.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr double kRate = 0.05;  // client.lr: update = -rate x gradient

// h of eq. (5), term by term.
Numbers fairness_row(const Numbers& losses) {
  const double root = std::sqrt(static_cast<double>(losses.size()));
  const double length = norm(losses);
  Numbers h;
  for (const double loss : losses) {
    const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    h.push_back((sum * loss / (root * length) - length / root) / (length * length));
  }
  return h;
}

// Updates back to gradients, layers [begin, end).
Rows gradients(const Told& told, std::size_t begin, std::size_t end) {
  Rows rows = told.part(begin, end);
  for (Numbers& row : rows) row = scaled(row, -1 / kRate);
  return rows;
}

Numbers with_length(const Numbers& v, double length) { return scaled(v, length / norm(v)); }

// d_l = -(shortest vector of the hull of g_1, ..., g_m, g_P) for layers [begin, end), by eqs. 5-8.
Numbers literal_layer(const Told& told, std::size_t begin, std::size_t end, bool reference) {
  Rows g = gradients(told, begin, end);
  double length = 0;
  for (const Numbers& row : g) length += norm(row) / static_cast<double>(told.k());
  if (reference) {
    for (Numbers& row : g) row = with_length(row, length);
  }
  Numbers g_p = combination(fairness_row(told.losses), g);
  if (reference) g_p = with_length(g_p, length);
  g.push_back(g_p);
  return scaled(slow_shortest(g), -1);
}

double mean_row_norm(const Rows& rows) {
  double sum = 0;
  for (const Numbers& row : rows) sum += norm(row) / static_cast<double>(rows.size());
  return sum;
}

// Algorithm 1, lines 6-15; eta x d.
Numbers literal_step(const Told& told, bool reference) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (std::size_t l = 0; l < told.layers.size(); ++l) parts.emplace_back(l, l + 1);
  const auto direction = [&](const auto& part) {
    return literal_layer(told, part.first, part.second, reference);
  };
  const auto is_zero = [&](const auto& part) {
    return norm(direction(part)) < 1e-6 * mean_row_norm(gradients(told, part.first, part.second));
  };
  for (std::size_t at = 0; !reference && at < parts.size();) {
    if (parts.size() == 1 || !is_zero(parts[at])) {
      ++at;
      continue;
    }
    if (at + 1 == parts.size()) --at;  // no next layer
    parts[at].second = parts[at + 1].second;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Numbers d;
  for (const auto& part : parts) {
    const Numbers piece = direction(part);
    d.insert(d.end(), piece.begin(), piece.end());
  }
  const Numbers equal(told.k(), 1 / static_cast<double>(told.k()));
  const Rows all = gradients(told, 0, told.layers.size());
  return scaled(with_length(d, norm(combination(equal, all))), kRate);
}

Told random_told(std::size_t k, std::vector<std::size_t> layers, double common, uint64_t trial) {
  RandomStream random(41, Purpose::kData, 100 * k + layers.size(), trial);
  const std::size_t length = std::accumulate(layers.begin(), layers.end(), std::size_t{0});
  Told told{.rows = random_rows(k, length, common, random), .layers = std::move(layers)};
  for (std::size_t i = 0; i < k; ++i) told.losses.push_back(0.2 + 2 * random.uniform());
  return told;
}

Numbers fedlf_step(const Told& told, bool reference = false) {
  return step_of(told, mix_told(*make_fedlf(reference), told).coefficients);
}

void expect_close(const Numbers& values, const Numbers& expected) {
  expect_near(values, expected, 1e-6 * norm(expected));
}

TEST(FedLf, IsTheLiteralAlgorithmOnVectors) {
  const std::vector<std::vector<std::size_t>> shapes{{4},       {9, 6},       {7, 1, 8},
                                                     {1, 12},   {10, 5, 1},   {1, 1, 11},
                                                     {6, 2, 2}, {3, 1, 1, 7}, {8, 9, 1, 1}};
  for (const bool reference : {false, true}) {
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      for (const std::size_t k : {2, 3, 4}) {
        const Told told = random_told(k, shapes[s], 0.7, s);
        expect_close(fedlf_step(told, reference), literal_step(told, reference));
      }
    }
  }
}

// P(w) = -cos(1, F(w)) on losses that follow the updates to first order.
double fairness_objective(const Numbers& losses) {
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  return -sum / std::sqrt(static_cast<double>(losses.size())) / norm(losses);
}

// Either no step at all, or one that lowers every loss and P: with layers of fewer parameters than
// participants, which must be joined, too.
TEST(FedLf, NobodyIsHarmedAndFairnessGrows) {
  int steps = 0;
  for (uint64_t trial = 0; trial < 300; ++trial) {
    const Told told = random_told(2 + trial % 11, {1 + trial % 3, 15, 2, 1 + trial % 20, 1},
                                  trial % 2 ? 0.5 : 0.0, trial);
    const Numbers step = fedlf_step(told);
    if (norm(step) == 0) continue;
    ++steps;
    Numbers after = told.losses;
    for (std::size_t i = 0; i < told.k(); ++i) {
      EXPECT_GT(dot(told.rows[i], step), 0) << trial;
      after[i] -= 1e-6 * dot(told.rows[i], step) / norm(step) / kRate;
    }
    EXPECT_LT(fairness_objective(after), fairness_objective(told.losses)) << trial;
  }
  EXPECT_GT(steps, 200);
}

TEST(FedLf, IsAsLongAsTheMeanUpdate) {
  for (const bool reference : {false, true}) {
    const Told told = random_told(5, {20, 3, 30}, 0.5, 1);
    const Mix mix = mix_told(*make_fedlf(reference), told);
    const double length = norm(combination(Numbers(5, 0.2), told.rows));
    EXPECT_NEAR(norm(step_of(told, mix.coefficients)), length, 1e-12 * length);
    EXPECT_NEAR(mix.direction.squared_norm, length * length, 1e-12 * length * length);
  }
}

TEST(FedLf, UnitsOfUpdatesDoNotMatter) {
  Told told = random_told(5, {20, 3, 30}, 0.5, 2);
  for (const bool reference : {false, true}) {
    const Numbers coefficients = mix_told(*make_fedlf(reference), told).coefficients;
    Told other = told;
    for (Numbers& row : other.rows) row = scaled(row, 1e-6);
    expect_near(mix_told(*make_fedlf(reference), other).coefficients, coefficients, 1e-9);
  }
}

// One participant is its own direction; P says nothing, whatever its loss.
TEST(FedLf, OneParticipantKeepsItsUpdate) {
  for (const bool reference : {false, true}) {
    for (const double loss : {0.0, 0.7}) {
      const Told told{.rows = {{1, -2, 3, 0.5}}, .layers = {1, 3}, .losses = {loss}};
      expect_close(fedlf_step(told, reference), told.rows[0]);
    }
  }
}

// The fairness row's gradient vanishes there; its direction does not exist.
TEST(FedLf, EqualLossesLeaveTheUpdatesAlone) {
  Told told = random_told(4, {9, 12}, 0.6, 3);
  for (const double loss : {0.1, 0.0, 3e7}) {
    told.losses.assign(4, loss);
    Numbers expected;
    for (std::size_t l = 0; l < 2; ++l) {
      const Numbers part = slow_shortest(told.part(l, l + 1));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const double length = norm(combination(Numbers(4, 0.25), told.rows));
    expect_close(fedlf_step(told), with_length(expected, length));
  }
}

// The hull of +-1 holds 0: such a layer moves with the next one, the last with the one before.
TEST(FedLf, LayersThatWouldStandStillAreJoined) {
  const Told told{
      .rows = {{1, 2, 1, 5, 1}, {-1, 1, 2, 6, -2}}, .layers = {1, 2, 1, 1}, .losses = {1, 1}};
  const Numbers c = mix_told(*make_fedlf(false), told).coefficients;
  EXPECT_EQ((Numbers{c[0], c[1]}), (Numbers{c[2], c[3]}));
  EXPECT_EQ((Numbers{c[6], c[7]}), (Numbers{c[4], c[5]}));
  EXPECT_NE((Numbers{c[2], c[3]}), (Numbers{c[4], c[5]}));
  EXPECT_GT(dot(told.rows[0], step_of(told, c)), 0);
  EXPECT_GT(dot(told.rows[1], step_of(told, c)), 0);
  const Numbers r = mix_told(*make_fedlf(true), told).coefficients;  // joins none
  EXPECT_EQ((Numbers{r[0], r[1], r[6], r[7]}), Numbers(4));
}

TEST(FedLf, StaysAtAParetoStationaryPoint) {
  const Told told{.rows = {{1, 2, 3}, {-2, -4, -6}}, .layers = {2, 1}, .losses = {1, 2}};
  for (const bool reference : {false, true}) {
    const Mix mix = mix_told(*make_fedlf(reference), told);
    EXPECT_EQ(mix.coefficients, Numbers(4));
    EXPECT_EQ(mix.direction.squared_norm, 0);
  }
}

TEST(FedLf, ZeroUpdatesAreDropped) {
  Told told = random_told(3, {5, 6}, 0.6, 4);
  told.rows[1] = Numbers(11);
  for (const bool reference : {false, true}) {
    const Mix mix = mix_told(*make_fedlf(reference), told);
    EXPECT_EQ(mix.direction.dropped, 1);
    const Numbers step = step_of(told, mix.coefficients);
    EXPECT_GT(dot(told.rows[0], step), 0);
    EXPECT_GT(dot(told.rows[2], step), 0);
    EXPECT_NEAR(norm(step), norm(combination(Numbers(3, 1.0 / 3), told.rows)), 1e-12);
    Told none = told;
    for (Numbers& row : none.rows) row = Numbers(11);
    EXPECT_EQ(mix_told(*make_fedlf(reference), none).direction.dropped, 3);
    EXPECT_EQ(mix_told(*make_fedlf(reference), none).coefficients, Numbers(6));
  }
}

// A layer that one client leaves alone, or all do, joins the next.
TEST(FedLf, LayersThatAClientLeavesAlone) {
  Told told = random_told(3, {5, 6}, 0.6, 5);
  std::fill_n(told.rows[1].begin(), 5, 0.0);
  const Numbers c = mix_told(*make_fedlf(false), told).coefficients;
  EXPECT_EQ(Numbers(c.begin(), c.begin() + 3), Numbers(c.begin() + 3, c.end()));
  EXPECT_GT(dot(told.rows[1], step_of(told, c)), 0);
  for (Numbers& row : told.rows) std::fill_n(row.begin(), 5, 0.0);
  for (const bool reference : {false, true}) {
    const Numbers step = fedlf_step(told, reference);
    for (const Numbers& row : told.rows) EXPECT_GT(dot(row, step), 0);
  }
}

// With unequal losses, lowering all of them by the same makes them less equal: P stands against it.
TEST(FedLf, IdenticalClients) {
  Told told{.rows = {{1, 2}, {1, 2}, {1, 2}}, .layers = {2}, .losses = {2, 2, 2}};
  for (const bool reference : {false, true}) {
    told.losses = {2, 2, 2};
    expect_close(fedlf_step(told, reference), {1, 2});
    told.losses = {1, 2, 3};
    EXPECT_EQ(fedlf_step(told, reference), Numbers(2));
  }
}

TEST(FedLf, AsksForLayersAndFiniteLosses) {
  const auto rule = make_fedlf(false);
  const AggregatorNeeds needs = rule->needs();
  EXPECT_TRUE(needs.losses && needs.gram && needs.layers);
  EXPECT_FALSE(needs.sizes || needs.full || needs.rates);
  Told told = random_told(2, {3}, 0, 6);
  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    told.losses[1] = bad;
    expect_error<InvalidArgument>([&] { mix_told(*rule, told); }, {"participant 1", "finite"});
  }
}

}  // namespace
}  // namespace hanse
