#include "rules/sampling/sampler_roster.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"

namespace hanse {

namespace {

// Rates so large that a few rounds move the probabilities far.
std::unique_ptr<ClientSampler> make_osmd(OsmdKind kind, int64_t clients, int64_t per_round,
                                         bool replacement) {
  const LearningOptions options{
      .kind = kind, .replacement = replacement, .alpha = 0.3, .rate_scale = 2000, .horizon = 100};
  return make_osmd_sampler(options, clients, per_round);
}

std::unique_ptr<ClientSampler> make_weighted(int64_t clients, int64_t per_round, bool replacement) {
  std::vector<double> shares;
  for (int64_t m = 0; m < clients; ++m) shares.push_back(static_cast<double>(m % 4 + 1));
  return make_weighted_sampler(shares, per_round, replacement);
}

std::vector<SamplerCase> make_roster() {
  std::vector<SamplerCase> roster{
      {"uniform", false, make_uniform_sampler},
      {"uniform with replacement", true, make_repeating_sampler},
      {"full", false, [](int64_t clients, int64_t) { return make_full_sampler(clients); }}};
  for (const bool replacement : {true, false}) {
    const std::string how = replacement ? "" : " without replacement";
    roster.push_back({"weighted" + how, replacement, [=](int64_t clients, int64_t per_round) {
                        return make_weighted(clients, per_round, replacement);
                      }});
    roster.push_back({"optimal" + how, replacement, [=](int64_t clients, int64_t per_round) {
                        return make_optimal_sampler(clients, per_round, replacement);
                      }});
    for (const auto& [name, kind] :
         {std::pair{"osmd", OsmdKind::kFixed}, std::pair{"adaptive-osmd", OsmdKind::kAdaptive},
          std::pair{"osmd-doubling", OsmdKind::kDoubling}}) {
      roster.push_back(
          {name + how, replacement, [=, kind = kind](int64_t clients, int64_t per_round) {
             return make_osmd(kind, clients, per_round, replacement);
           }});
    }
  }
  return roster;
}

}  // namespace

const std::vector<SamplerCase>& sampler_roster() {
  static const std::vector<SamplerCase> roster = make_roster();
  return roster;
}

std::vector<double> round_gradients(int64_t clients, int64_t round) {
  RandomStream stream(3, Purpose::kData, static_cast<uint64_t>(round));
  std::vector<double> a;
  for (int64_t m = 0; m < clients; ++m) {
    a.push_back(std::pow(10.0, static_cast<double>(m * 5 % 7) / 3) * (0.5 + stream.uniform()));
  }
  return a;
}

Draw draw_round(ClientSampler& sampler, int64_t round, int64_t n) {
  if (sampler.needs_all_clients()) sampler.observe_all(round_gradients(sampler.clients(), round));
  RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(round));
  return sampler.draw(round, n < 0 ? sampler.per_round() : n, stream);
}

Draw play_round(ClientSampler& sampler, int64_t round, int64_t n) {
  Draw draw = draw_round(sampler, round, n);
  const auto all = round_gradients(sampler.clients(), round);
  std::vector<double> a;
  for (const int64_t client : draw.clients) a.push_back(all[static_cast<std::size_t>(client)]);
  sampler.observe(draw, {.a = a, .losses = a});
  return draw;
}

std::vector<double> probabilities_of(const ClientSampler& sampler) {
  std::vector<double> p;
  for (int64_t m = 0; m < sampler.clients(); ++m) p.push_back(sampler.probability(m));
  return p;
}

void expect_same(const Draw& a, const Draw& b) {
  EXPECT_EQ(a.clients, b.clients);
  EXPECT_EQ(a.counts, b.counts);
  EXPECT_EQ(a.probabilities, b.probabilities);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.everyone, b.everyone);
}

}  // namespace hanse
