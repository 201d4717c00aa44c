#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/multi_objective.hpp"
#include "rules/aggregation/rows.hpp"
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

// As many of the rows as have losses are participants'; the others are absent clients'.
Rows participants(const Told& told, Rows rows) {
  rows.resize(told.losses.size());
  return rows;
}

// d_l = -(shortest vector of the hull of g_1, ..., g_m, g_P) for layers [begin, end), by eqs. 5-8,
// with the last gradients of absent clients in the window's form.
Numbers literal_layer(const Told& told, std::size_t begin, std::size_t end, const FedLfForm& form) {
  const bool scales = form.reference || form.window;
  Rows g = gradients(told, begin, end);
  const Rows as_they_are = participants(told, g);
  double length = 0;
  for (const Numbers& row : as_they_are) {
    length += norm(row) / static_cast<double>(as_they_are.size());
  }
  if (scales) {
    for (Numbers& row : g) row = with_length(row, length);
  }
  Numbers g_p =
      combination(fairness_row(told.losses), form.reference ? participants(told, g) : as_they_are);
  if (scales) g_p = with_length(g_p, length);
  g.push_back(g_p);
  return scaled(slow_shortest(g), -1);
}

double mean_row_norm(const Rows& rows) {
  double sum = 0;
  for (const Numbers& row : rows) sum += norm(row) / static_cast<double>(rows.size());
  return sum;
}

// Algorithm 1, lines 6-15; eta x d.
Numbers literal_step(const Told& told, const FedLfForm& form) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  for (std::size_t l = 0; l < told.layers.size(); ++l) parts.emplace_back(l, l + 1);
  const auto direction = [&](const auto& part) {
    return literal_layer(told, part.first, part.second, form);
  };
  const auto is_zero = [&](const auto& part) {
    const Rows rows = participants(told, gradients(told, part.first, part.second));
    return norm(direction(part)) < 1e-6 * mean_row_norm(rows);
  };
  for (std::size_t at = 0; !form.reference && at < parts.size();) {
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
  const Rows all = participants(told, gradients(told, 0, told.layers.size()));
  const Numbers equal(all.size(), 1 / static_cast<double>(all.size()));
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
  return step_of(told, mix_told(*make_fedlf({.reference = reference}), told).coefficients);
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
        expect_close(fedlf_step(told, reference), literal_step(told, {.reference = reference}));
      }
    }
  }
}

// m participants take part; every row that is left is an absent client's.
TEST(FedLf, LastUpdatesOfAbsentClients) {
  const std::vector<std::vector<std::size_t>> shapes{{9}, {9, 6}, {7, 1, 8}, {1, 12}, {8, 9, 1, 1}};
  for (const bool reference : {false, true}) {
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      for (const std::size_t m : {2, 3}) {
        Told told = random_told(2 * m, shapes[s], 0.7, 7 + s);
        told.losses.resize(m);
        const FedLfForm form{.reference = reference, .window = true};
        const auto rule = make_fedlf(form);
        Ids before, now;
        for (std::size_t i = 0; i < m; ++i) {
          now.push_back(static_cast<int64_t>(20 - i));
          before.push_back(static_cast<int64_t>(3 * i));
        }
        EXPECT_TRUE(rule->needs().last_updates);
        EXPECT_EQ(rule->absent(1, before), Ids());
        Told first = random_told(m, shapes[s], 0.7, 9);
        rule->mix({.round = 1, .clients = before, .losses = first.losses, .gram = first.gram()});
        EXPECT_EQ(rule->absent(2, now), before);
        const Mix mix =
            rule->mix({.round = 2, .clients = now, .losses = told.losses, .gram = told.gram()});
        expect_close(step_of(told, mix.coefficients), literal_step(told, form));
      }
    }
  }
}

// tau = M/|S|: with M clients seen before, those of the last tau rounds.
TEST(FedLf, TheWindowGrowsWithTheClientsSeen) {
  const auto rule = make_fedlf({.window = true});
  const auto play = [&](int64_t round, const Ids& ids) {
    const std::size_t k = ids.size() + rule->absent(round, ids).size();
    const Told told = random_told(k, {30}, 0.7, static_cast<uint64_t>(round));
    const Numbers losses(told.losses.begin(), told.losses.begin() + std::ssize(ids));
    rule->mix({.round = round, .clients = ids, .losses = losses, .gram = told.gram()});
  };
  play(1, {4, 2});
  EXPECT_EQ(rule->absent(2, Ids{0, 1, 3}), Ids());  // tau = 2/3
  EXPECT_EQ(rule->absent(2, Ids{0, 2}), Ids{4});    // tau = 1; 2 is there
  EXPECT_EQ(rule->absent(3, Ids{0, 5}), Ids());     // nobody in round 2
  play(3, {7, 5});
  EXPECT_EQ(rule->absent(4, Ids{0, 1}), (Ids{5, 7}));     // tau = 2: rounds 2 and 3
  EXPECT_EQ(rule->absent(4, Ids{0}), (Ids{2, 4, 5, 7}));  // tau = 4
  State state;
  rule->save(state);
  const auto again = make_fedlf({.window = true});
  again->load(state);
  EXPECT_EQ(again->absent(4, Ids{0}), (Ids{2, 4, 5, 7}));
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
    const Mix mix = mix_told(*make_fedlf({.reference = reference}), told);
    const double length = norm(combination(Numbers(5, 0.2), told.rows));
    EXPECT_NEAR(norm(step_of(told, mix.coefficients)), length, 1e-12 * length);
    EXPECT_NEAR(mix.direction.squared_norm, length * length, 1e-12 * length * length);
  }
}

TEST(FedLf, UnitsOfUpdatesDoNotMatter) {
  Told told = random_told(5, {20, 3, 30}, 0.5, 2);
  for (const bool reference : {false, true}) {
    const Numbers coefficients = mix_told(*make_fedlf({.reference = reference}), told).coefficients;
    Told other = told;
    for (Numbers& row : other.rows) row = scaled(row, 1e-6);
    expect_near(mix_told(*make_fedlf({.reference = reference}), other).coefficients, coefficients,
                1e-9);
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
  const Numbers c = mix_told(*make_fedlf({}), told).coefficients;
  EXPECT_EQ((Numbers{c[0], c[1]}), (Numbers{c[2], c[3]}));
  EXPECT_EQ((Numbers{c[6], c[7]}), (Numbers{c[4], c[5]}));
  EXPECT_NE((Numbers{c[2], c[3]}), (Numbers{c[4], c[5]}));
  EXPECT_GT(dot(told.rows[0], step_of(told, c)), 0);
  EXPECT_GT(dot(told.rows[1], step_of(told, c)), 0);
  const Numbers r = mix_told(*make_fedlf({.reference = true}), told).coefficients;  // joins none
  EXPECT_EQ((Numbers{r[0], r[1], r[6], r[7]}), Numbers(4));
}

TEST(FedLf, StaysAtAParetoStationaryPoint) {
  const Told told{.rows = {{1, 2, 3}, {-2, -4, -6}}, .layers = {2, 1}, .losses = {1, 2}};
  for (const bool reference : {false, true}) {
    const Mix mix = mix_told(*make_fedlf({.reference = reference}), told);
    EXPECT_EQ(mix.coefficients, Numbers(4));
    EXPECT_EQ(mix.direction.squared_norm, 0);
  }
}

TEST(FedLf, ZeroUpdatesAreDropped) {
  Told told = random_told(3, {5, 6}, 0.6, 4);
  told.rows[1] = Numbers(11);
  for (const bool reference : {false, true}) {
    const Mix mix = mix_told(*make_fedlf({.reference = reference}), told);
    EXPECT_EQ(mix.direction.dropped, 1);
    const Numbers step = step_of(told, mix.coefficients);
    EXPECT_GT(dot(told.rows[0], step), 0);
    EXPECT_GT(dot(told.rows[2], step), 0);
    EXPECT_NEAR(norm(step), norm(combination(Numbers(3, 1.0 / 3), told.rows)), 1e-12);
    Told none = told;
    for (Numbers& row : none.rows) row = Numbers(11);
    EXPECT_EQ(mix_told(*make_fedlf({.reference = reference}), none).direction.dropped, 3);
    EXPECT_EQ(mix_told(*make_fedlf({.reference = reference}), none).coefficients, Numbers(6));
  }
}

// A layer that one client leaves alone, or all do, joins the next.
TEST(FedLf, LayersThatAClientLeavesAlone) {
  Told told = random_told(3, {5, 6}, 0.6, 5);
  std::fill_n(told.rows[1].begin(), 5, 0.0);
  const Numbers c = mix_told(*make_fedlf({}), told).coefficients;
  EXPECT_EQ(Numbers(c.begin(), c.begin() + 3), Numbers(c.begin() + 3, c.end()));
  EXPECT_GT(dot(told.rows[1], step_of(told, c)), 0);
  for (Numbers& row : told.rows) std::fill_n(row.begin(), 5, 0.0);
  for (const bool reference : {false, true}) {
    const Numbers step = fedlf_step(told, reference);
    for (const Numbers& row : told.rows) EXPECT_GT(dot(row, step), 0);
  }
}

// With unequal losses, lowering all of them by the same makes them less equal: P stands against it.
TEST(FedLf, EqualUpdatesAreTheStepWhereLossesAreEqual) {
  Told told{.rows = {{1, 2}, {1, 2}, {1, 2}}, .layers = {2}, .losses = {2, 2, 2}};
  for (const bool reference : {false, true}) {
    told.losses = {2, 2, 2};
    expect_close(fedlf_step(told, reference), {1, 2});
    told.losses = {1, 2, 3};
    EXPECT_EQ(fedlf_step(told, reference), Numbers(2));
  }
}

TEST(FedLf, AsksForLayersAndFiniteLosses) {
  const auto rule = make_fedlf({});
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
