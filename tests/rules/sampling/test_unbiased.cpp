// What the weights of a draw promise, by summing over every draw that can happen.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/sampling/basic.hpp"
#include "rules/sampling/sampler_roster.hpp"

namespace hanse {
namespace {

using Path = std::vector<int64_t>;

std::size_t index(int64_t i) { return static_cast<std::size_t>(i); }

// Calls `see` with every sequence of draws by `mass` [M] and its probability.
void for_each_path(std::vector<double> mass, int64_t draws, bool replacement,
                   const std::function<void(const Path&, double)>& see, Path path = {},
                   double probability = 1) {
  if (static_cast<int64_t>(path.size()) == draws) return see(path, probability);
  const double sum = std::accumulate(mass.begin(), mass.end(), 0.0);
  for (std::size_t m = 0; m < mass.size(); ++m) {
    if (mass[m] == 0) continue;
    Path longer = path;
    longer.push_back(static_cast<int64_t>(m));
    std::vector<double> left = mass;
    if (!replacement) left[m] = 0;
    for_each_path(std::move(left), draws, replacement, see, std::move(longer),
                  probability * mass[m] / sum);
  }
}

// A sampler that has seen a few rounds, with some clients away.
struct Scene {
  std::unique_ptr<ClientSampler> sampler;
  std::vector<bool> available;
  std::vector<double> mass;  // [M], 0 of those away
  bool replacement;
  int64_t n = sampler->per_round();  // that a draw asks for

  int64_t there() const { return std::count(available.begin(), available.end(), true); }
};

Scene scene_of(const SamplerCase& kind, int64_t clients, int64_t per_round, int64_t rounds,
               const std::vector<int64_t>& away) {
  Scene scene{
      kind.make(clients, per_round), std::vector<bool>(index(clients), true), {}, kind.replacement};
  for (int64_t round = 1; round <= rounds; ++round) play_round(*scene.sampler, round);
  if (scene.sampler->needs_all_clients())
    scene.sampler->observe_all(round_gradients(clients, rounds));
  scene.sampler->toggle(away);
  scene.mass = probabilities_of(*scene.sampler);
  EXPECT_NEAR(std::accumulate(scene.mass.begin(), scene.mass.end(), 0.0), 1, 1e-13);
  for (const int64_t client : away) {
    scene.available[index(client)] = false;
    scene.mass[index(client)] = 0;
  }
  return scene;
}

void for_each_draw(Scene& scene, const std::function<void(const Draw&, const Path&, double)>& see) {
  const int64_t there = scene.there();
  const bool choice = there > scene.n || there == scene.sampler->clients();
  for_each_path(scene.mass, choice ? scene.n : there, choice && scene.replacement,
                [&](const Path& path, double probability) {
                  see(scene.sampler->impose(scene.n, path), path, probability);
                });
}

// Distinct numbers of both signs.
double quantity(int64_t client) { return std::cos(static_cast<double>(3 * client + 1)); }

double estimate(const Draw& draw) {
  double sum = 0;
  for (std::size_t i = 0; i < draw.size(); ++i) sum += draw.weights[i] * quantity(draw.clients[i]);
  return sum;
}

void expect_unbiased(Scene& scene) {
  long double expectation = 0;
  long double certainty = 0;
  for_each_draw(scene, [&](const Draw& draw, const Path&, double probability) {
    expectation += probability * estimate(draw);
    certainty += probability;
  });
  double sum = 0;
  for (std::size_t m = 0; m < scene.available.size(); ++m) {
    if (scene.available[m]) sum += quantity(static_cast<int64_t>(m));
  }
  EXPECT_NEAR(static_cast<double>(certainty), 1, 1e-12);
  EXPECT_NEAR(static_cast<double>(expectation), sum, 1e-12 * std::max(1.0, std::abs(sum)));
}

struct Size {
  int64_t clients;
  int64_t per_round;
  std::vector<std::vector<int64_t>> away;
};

const std::vector<Size>& sizes() {
  static const std::vector<Size> all{{1, 1, {{}, {0}}},
                                     {4, 1, {{}, {2}, {0, 1, 3}}},
                                     {4, 4, {{}, {1}, {0, 1, 2, 3}}},
                                     {5, 3, {{}, {4}, {0, 3}, {0, 1, 4}, {0, 1, 2, 3, 4}}},
                                     {7, 2, {{}, {0, 6}, {1, 2, 3, 5}, {0, 1, 2, 3, 4}}}};
  return all;
}

TEST(Unbiased, EverySamplerEverySize) {
  for (const SamplerCase& kind : sampler_roster()) {
    for (const auto& [clients, per_round, aways] : sizes()) {
      for (const auto& away : aways) {
        for (const int64_t rounds : {0, 1, 8}) {  // 1: some clients have never been drawn
          SCOPED_TRACE(kind.name + ", " + std::to_string(clients) + " clients, " +
                       std::to_string(away.size()) + " away, after " + std::to_string(rounds));
          Scene scene = scene_of(kind, clients, per_round, rounds, away);
          expect_unbiased(scene);
          while (kind.name != "full" && --scene.n > 0) expect_unbiased(scene);
        }
      }
    }
  }
}

TEST(Unbiased, LearningMovedTheProbabilities) {
  for (const SamplerCase& kind : sampler_roster()) {
    const Scene scene = scene_of(kind, 9, 2, 8, {});
    const auto [least, most] = std::minmax_element(scene.mass.begin(), scene.mass.end());
    const bool even = kind.name.starts_with("uniform") || kind.name == "full";
    EXPECT_EQ(*most > 1.5 * *least, !even) << kind.name;
  }
}

// Clients whose a is 0 contribute nothing, and the optimal sampler leaves them out.
TEST(Unbiased, OptimalWithZeros) {
  for (const bool replacement : {true, false}) {
    Scene scene{
        make_optimal_sampler(5, 3, replacement), std::vector<bool>(5, true), {}, replacement};
    scene.sampler->observe_all(std::vector<double>{4, 0, 1, 9, 0});
    scene.mass = probabilities_of(*scene.sampler);
    EXPECT_EQ(scene.mass[1], 0);
    EXPECT_DOUBLE_EQ(scene.mass[0], 2.0 / 6);
    EXPECT_DOUBLE_EQ(scene.mass[2], 1.0 / 6);
    EXPECT_DOUBLE_EQ(scene.mass[3], 3.0 / 6);
    double expectation = 0;
    for_each_draw(scene, [&](const Draw& draw, const Path&, double probability) {
      expectation += probability * estimate(draw);
    });
    EXPECT_NEAR(expectation, quantity(0) + quantity(2) + quantity(3), 1e-12);
  }
}

// l(q) = 1/K sum_m a_m/q_m of eq. 4, which eq. 6 estimates.
TEST(Unbiased, VarianceEstimateWithReplacement) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (!kind.replacement) continue;
    for (const auto& [clients, per_round, away] :
         std::vector<std::tuple<int64_t, int64_t, std::vector<int64_t>>>{
             {5, 3, {}}, {5, 3, {2}}, {9, 2, {0, 4, 5}}}) {
      SCOPED_TRACE(kind.name);
      Scene scene = scene_of(kind, clients, per_round, 5, away);
      const auto a = round_gradients(clients, 77);
      double expectation = 0;
      for_each_draw(scene, [&](const Draw& draw, const Path&, double probability) {
        std::vector<double> drawn;
        for (const int64_t client : draw.clients) drawn.push_back(a[index(client)]);
        expectation += probability * variance_estimate(draw, drawn);
      });
      const double total = std::accumulate(scene.mass.begin(), scene.mass.end(), 0.0);
      double loss = 0;
      for (std::size_t m = 0; m < a.size(); ++m) {
        if (scene.available[m]) loss += a[m] * total / scene.mass[m];
      }
      loss /= static_cast<double>(per_round);
      EXPECT_NEAR(expectation, loss, 1e-12 * loss);
    }
  }
}

// Steps 14 to 18 of Algorithm 7, literally: g_(k) = x_{m_k}/p_(k) + sum_{l<k} x_{m_l}.
double algorithm_7(const Path& path, std::vector<double> mass) {
  double mean = 0;
  double before = 0;
  for (const int64_t client : path) {
    const double sum = std::accumulate(mass.begin(), mass.end(), 0.0);
    mean += quantity(client) / (mass[index(client)] / sum) + before;
    before += quantity(client);
    mass[index(client)] = 0;
  }
  return mean / static_cast<double>(path.size());
}

TEST(Unbiased, WithoutReplacementIsAlgorithm7) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.replacement || kind.name == "uniform" || kind.name == "full") continue;
    for (const auto& [clients, per_round, away] :
         std::vector<std::tuple<int64_t, int64_t, std::vector<int64_t>>>{
             {5, 5, {}}, {5, 3, {2}}, {9, 2, {0, 4, 5}}}) {
      SCOPED_TRACE(kind.name);
      Scene scene = scene_of(kind, clients, per_round, 3, away);
      for_each_draw(scene, [&](const Draw& draw, const Path& path, double) {
        const double literal = algorithm_7(path, scene.mass);
        EXPECT_NEAR(estimate(draw), literal, 1e-12 * std::max(1.0, std::abs(literal)));
        EXPECT_EQ(draw.clients, path);
      });
    }
  }
}

}  // namespace
}  // namespace hanse
