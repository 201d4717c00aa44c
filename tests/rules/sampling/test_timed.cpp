// oort and power-of-choice against their formulas, written down once more in the plainest way.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/timed.hpp"
#include "rules/sampling/sampler_roster.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const std::vector<double> kSamples{5, 40, 12, 9, 30, 7};

// What a client reports.
struct Report {
  double squares, size, seconds;
};

// The formulas of timed.hpp for one client after the other.
struct PlainOort {
  bool reference;
  OortOptions options;
  std::vector<double> samples = kSamples;
  std::map<int64_t, double> utility, seconds;
  std::map<int64_t, int64_t> last;
  std::vector<double> means{};
  int64_t round = 1;
  double eps = options.exploration * options.exploration_decay;
  double pacer = options.pacer;

  double slowness(int64_t i) const {
    std::vector<double> all;
    for (const auto& [client, s] : seconds) all.push_back(s);
    std::sort(all.begin(), all.end());
    if (all.empty() || pacer >= 100 || !seconds.contains(i)) return 1;
    const auto at = static_cast<std::size_t>(static_cast<double>(all.size()) * pacer / 100);
    const double preferred = all[std::min(at, all.size() - 1)];
    return seconds.at(i) > preferred ? std::pow(preferred / seconds.at(i), options.penalty) : 1;
  }

  // Weights of the `count` most wanted of a kind.
  std::map<int64_t, double> known(std::set<int64_t> there, int64_t count) const {
    std::vector<double> u;
    for (const int64_t i : there) u.push_back(utility.at(i));
    std::sort(u.begin(), u.end());
    const double q = options.clip_quantile.value_or(reference ? 0.9 : 0.95);
    const double top =
        u[std::min(static_cast<std::size_t>(static_cast<double>(u.size()) * q), u.size() - 1)];
    const double low = 0.999 * u.front();
    std::vector<std::pair<double, int64_t>> v;
    for (const int64_t i : there) {
      const double norm = (std::min(utility.at(i), top) - low) / std::max(u.back() - low, 1e-4);
      const double doubt =
          std::sqrt(0.1 * std::log(static_cast<double>(round)) / static_cast<double>(last.at(i)));
      v.emplace_back(-(norm + doubt) * slowness(i), i);
    }
    std::sort(v.begin(), v.end());
    const auto k = static_cast<std::size_t>(count);
    const double cut =
        reference ? 0.05 * -v[std::min(k, v.size() - 1)].first : 0.95 * -v[k - 1].first;
    std::map<int64_t, double> pool;
    for (const auto& [minus, i] : v) {
      if (-minus < cut && (!reference || pool.size() > 10 * k)) break;
      pool[i] = -minus;
    }
    return pool;
  }
  std::map<int64_t, double> fresh(const std::set<int64_t>& there, int64_t count) const {
    std::vector<std::pair<double, int64_t>> w;
    for (const int64_t i : there) {
      w.emplace_back(-samples[static_cast<std::size_t>(i)] * slowness(i), i);
    }
    std::sort(w.begin(), w.end());
    w.resize(
        std::min(w.size(), static_cast<std::size_t>(options.window * static_cast<double>(count))));
    std::map<int64_t, double> pool;
    for (const auto& [minus, i] : w) pool[i] = -minus;
    return pool;
  }

  std::vector<double> probabilities(int64_t k) const {
    std::set<int64_t> old, young;
    for (int64_t i = 0; i < std::ssize(samples); ++i) (last.contains(i) ? old : young).insert(i);
    const auto explore = static_cast<int64_t>(eps * static_cast<double>(k));
    int64_t exploit = std::min(k - explore, std::ssize(old));
    const int64_t exploring = std::min(k - exploit, std::ssize(young));
    exploit = std::min(k - exploring, std::ssize(old));
    std::vector<double> p(samples.size());
    const auto add = [&](const std::map<int64_t, double>& pool, int64_t count) {
      double sum = 0;
      for (const auto& [i, w] : pool) sum += w;
      for (const auto& [i, w] : pool) {
        p[static_cast<std::size_t>(i)] =
            static_cast<double>(count) / static_cast<double>(k) * w / sum;
      }
    };
    if (exploit > 0) add(known(old, exploit), exploit);
    if (exploring > 0) add(fresh(young, exploring), exploring);
    return p;
  }

  void observe(const std::vector<int64_t>& clients, const std::vector<Report>& reports) {
    double sum = 0, exploited = 0;
    std::map<int64_t, double> found;
    for (std::size_t k = 0; k < clients.size(); ++k) {
      const double u = reports[k].size * std::sqrt(reports[k].squares / reports[k].size);
      if (last.contains(clients[k])) {
        sum += u;
        ++exploited;
      }
      utility[clients[k]] = u;
      last[clients[k]] = round;
      if (reports[k].seconds > 0) seconds[clients[k]] = reports[k].seconds;
    }
    means.push_back(exploited > 0 ? sum / exploited : 0);
    ++round;
    eps = std::max(eps * options.exploration_decay,
                   options.exploration_min.value_or(reference ? 0.3 : 0.2));
    const int64_t w = options.pacer_every;
    if (round < 2 * w || round % w != 0) return;
    double now = 0, before = 0;  // rounds [R - W, R) and [R - 2 W, R - W)
    for (int64_t r = round - w; r < round; ++r) now += means[static_cast<std::size_t>(r - 1)];
    for (int64_t r = std::max<int64_t>(1, round - 2 * w); r < round - w; ++r) {
      before += means[static_cast<std::size_t>(r - 1)];
    }
    if (std::abs(now - before) <= 0.1 * before) {
      pacer = std::min(100.0, pacer + options.pacer_step);
    } else if (std::abs(now - before) >= 5 * before) {
      pacer = std::max(options.pacer_step, pacer - options.pacer_step);
    }
  }
};

Report report_of(int64_t client, int64_t round) {
  RandomStream stream(7, Purpose::kData, static_cast<uint64_t>(round),
                      static_cast<uint64_t>(client));
  return {3 * stream.uniform() + static_cast<double>(client),
          10 + std::floor(20 * stream.uniform()), 1 + 9 * stream.uniform()};
}

std::unique_ptr<ClientSampler> make(const PlainOort& plain, int64_t per_round) {
  return make_oort_sampler(plain.options, plain.reference ? Variant::kReference : Variant::kPaper,
                           plain.samples, per_round);
}

void tell(ClientSampler& sampler, const Draw& draw, const std::vector<Report>& reports,
          bool has_durations) {
  std::vector<double> squares, sizes, durations, zeros(draw.size());
  for (const Report& one : reports) {
    squares.push_back(one.squares);
    sizes.push_back(one.size);
    if (has_durations) durations.push_back(one.seconds);
  }
  sampler.observe(
      draw,
      {.a = zeros, .losses = zeros, .durations = durations, .squares = squares, .sizes = sizes});
}

std::vector<Report> reports_of(const std::vector<int64_t>& clients, int64_t round) {
  std::vector<Report> reports;
  for (const int64_t client : clients) reports.push_back(report_of(client, round));
  return reports;
}

void expect_probabilities(const ClientSampler& sampler, const PlainOort& plain, int64_t per_round) {
  const auto expected = plain.probabilities(per_round);
  const auto found = probabilities_of(sampler);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-12) << "client " << i << ", round " << plain.round;
  }
  EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), 1, 1e-12);
}

TEST(Oort, FollowsItsFormulasOnFeedbackMadeByHand) {
  for (const bool reference : {false, true}) {
    PlainOort plain{.reference = reference, .options = {}};
    const auto sampler = make(plain, 2);
    for (const std::vector<int64_t>& clients : {std::vector<int64_t>{1, 4}, {4, 0}, {2, 1}}) {
      expect_probabilities(*sampler, plain, 2);
      const Draw draw = sampler->impose(2, clients);
      EXPECT_EQ(draw.clients, clients);
      EXPECT_EQ(draw.weights, std::vector<double>(2, 3.0));
      const auto reports = reports_of(clients, plain.round);
      tell(*sampler, draw, reports, true);
      plain.observe(clients, reports);
    }
    expect_probabilities(*sampler, plain, 2);
  }
}

// Pools that are cut, a pacer that moves each way, clients that all are known.
TEST(Oort, FollowsItsFormulasForManyRounds) {
  for (const bool reference : {false, true}) {
    PlainOort plain{.reference = reference,
                    .options = {.exploration = 0.7,
                                .exploration_decay = 0.9,
                                .pacer_step = 15,
                                .pacer_every = 3,
                                .window = 1.5}};
    const int64_t m = 60, k = 5;
    plain.samples.clear();
    for (int64_t i = 0; i < m; ++i) plain.samples.push_back(static_cast<double>(1 + i * 7 % 11));
    const auto sampler = make(plain, k);
    std::set<double> pacers;
    for (int64_t round = 1; round <= 60; ++round) {
      expect_probabilities(*sampler, plain, k);
      const auto before = probabilities_of(*sampler);
      const Draw draw = draw_round(*sampler, round);
      EXPECT_EQ(std::set<int64_t>(draw.clients.begin(), draw.clients.end()).size(), to_index(k));
      for (const int64_t client : draw.clients) EXPECT_GT(before[to_index(client)], 0);
      auto reports = reports_of(draw.clients, round);
      if (round > 20 && round <= 30) {
        for (Report& one : reports) one.squares *= 1e4;
      }
      tell(*sampler, draw, reports, true);
      plain.observe(draw.clients, reports);
      pacers.insert(plain.pacer);
    }
    EXPECT_GE(pacers.size(), 3U);
  }
}

TEST(Oort, PenalisesNobodyWithoutDurations) {
  PlainOort plain{.reference = false, .options = {}};
  const auto sampler = make(plain, 3);
  for (int64_t round = 1; round <= 4; ++round) {
    const Draw draw = draw_round(*sampler, round);
    auto reports = reports_of(draw.clients, round);
    tell(*sampler, draw, reports, false);
    for (Report& one : reports) one.seconds = 0;
    plain.observe(draw.clients, reports);
    expect_probabilities(*sampler, plain, 3);
  }
}

TEST(Oort, LearnsTheDurationsOfClientsThatCameTooLate) {
  PlainOort plain{.reference = false, .options = {}};
  const auto sampler = make(plain, 2);
  const std::vector<int64_t> late{1, 3};
  sampler->observe_late(late, std::vector<double>{100, 2});
  plain.seconds = {{1, 100.0}, {3, 2.0}};
  expect_probabilities(*sampler, plain, 2);
  EXPECT_LT(sampler->probability(1), 0.01);  // who has the most samples, and is slow
}

TEST(Oort, DrawsEveryoneWhoIsThereWhenTheyAreFew) {
  const auto sampler = make({.reference = true, .options = {}}, 4);
  sampler->toggle(std::vector<int64_t>{0, 2, 5});
  Draw draw = draw_round(*sampler, 1);
  EXPECT_TRUE(draw.everyone);
  std::sort(draw.clients.begin(), draw.clients.end());
  EXPECT_EQ(draw.clients, (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(draw.weights, std::vector<double>(3, 1.0));
}

TEST(Oort, GoesOnFromItsSavedState) {
  const PlainOort plain{.reference = true, .options = {.pacer_every = 1}};
  const auto used = make(plain, 2), fresh = make(plain, 2);
  for (int64_t round = 1; round <= 5; ++round) {
    const Draw draw = draw_round(*used, round);
    tell(*used, draw, reports_of(draw.clients, round), true);
  }
  State state;
  used->save(state);
  fresh->load(state);
  for (int64_t round = 6; round <= 9; ++round) {
    EXPECT_EQ(probabilities_of(*used), probabilities_of(*fresh));
    const Draw draw = draw_round(*used, round);
    expect_same(draw, draw_round(*fresh, round));
    for (ClientSampler* sampler : {used.get(), fresh.get()}) {
      tell(*sampler, draw, reports_of(draw.clients, round), true);
    }
  }
}

TEST(Oort, RefusesWhatItCannotUse) {
  const auto refused = [](OortOptions options, const char* key) {
    expect_error<InvalidArgument>([&] { make_oort_sampler(options, Variant::kPaper, kSamples, 2); },
                                  {key, "range"});
  };
  refused({.exploration = 1.5}, "sampler.exploration");
  refused({.exploration_min = 2}, "sampler.exploration-min");
  refused({.clip_quantile = 0}, "sampler.clip-quantile");
  expect_error<InvalidArgument>([] { make_oort_sampler({}, Variant::kCorrected, kSamples, 2); },
                                {"sampler.variant"});
  const auto sampler = make({.reference = false, .options = {}}, 2);
  const Draw draw = draw_round(*sampler, 1);
  const std::vector<double> two{1, 1}, bad{1, -1};
  expect_error<InvalidArgument>([&] { sampler->observe(draw, {.a = two, .losses = two}); },
                                {"squares"});
  expect_error<InvalidArgument>(
      [&] { sampler->observe(draw, {.a = two, .losses = two, .squares = bad, .sizes = two}); },
      {"client " + std::to_string(draw.clients[1])});
  for (const std::vector<int64_t>& draws : {std::vector<int64_t>{1}, {1, 1}, {1, 9}}) {
    expect_error<InvalidArgument>([&] { sampler->impose(2, draws); }, {"draws"});
  }
}

TEST(PowerOfChoice, TakesTheLargestLossesOfItsCandidates) {
  const auto sampler = make_power_of_choice_sampler(kSamples, 2, 4);
  RandomStream stream(1, Purpose::kSampling, 1);
  const auto candidates = sampler->candidates(1, 2, stream);
  EXPECT_EQ(std::set<int64_t>(candidates.begin(), candidates.end()).size(), 4U);
  const std::vector<int64_t> four{5, 0, 3, 2};
  sampler->take_candidates(four, std::vector<double>{1, 3, 1, 1});
  const Draw draw = sampler->draw(1, 2, stream);
  EXPECT_EQ(draw.clients, (std::vector<int64_t>{0, 2}));  // the smaller number of equals
  EXPECT_EQ(draw.weights, std::vector<double>(2, 3.0));
  expect_same(draw, sampler->impose(2, draw.clients));
  expect_error<InvalidArgument>(
      [&] {
        sampler->impose(2, std::vector<int64_t>{0, 3});
      },
      {"largest losses", "draws"});
}

TEST(PowerOfChoice, DrawsAsTheWeightedSamplerWithAsManyCandidatesAsParticipants) {
  const auto sampler = make_power_of_choice_sampler(kSamples, 3, 3);
  const auto weighted = make_weighted_sampler(kSamples, 3, false);
  for (int64_t round = 1; round <= 20; ++round) {
    RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(round));
    const auto candidates = sampler->candidates(round, 3, stream);
    sampler->take_candidates(candidates, std::vector<double>{0.5, 2, 1});
    auto clients = sampler->draw(round, 3, stream).clients;
    auto expected = draw_round(*weighted, round).clients;
    EXPECT_EQ(clients.front(), expected[1]);
    std::sort(clients.begin(), clients.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(clients, expected);
  }
}

TEST(PowerOfChoice, HasCandidatesAmongThoseWhoAreThere) {
  const auto sampler = make_power_of_choice_sampler(kSamples, 2, 0);
  sampler->toggle(std::vector<int64_t>{0, 1, 2});
  RandomStream stream(1, Purpose::kSampling, 1);
  auto candidates = sampler->candidates(1, 2, stream);
  std::sort(candidates.begin(), candidates.end());
  EXPECT_EQ(candidates, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_TRUE(sampler->candidates(1, 0, stream).empty());
  expect_error<Error>([&] { sampler->draw(1, 2, stream); }, {"no losses"});
  sampler->toggle(std::vector<int64_t>{3, 4, 5});
  EXPECT_TRUE(sampler->candidates(1, 2, stream).empty());
  EXPECT_EQ(sampler->draw(1, 2, stream).size(), 0U);
  expect_error<InvalidArgument>([] { make_power_of_choice_sampler(kSamples, 3, 2); },
                                {"sampler.candidates"});
}

}  // namespace
}  // namespace hanse
