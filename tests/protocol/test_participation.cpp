// Who is asked, what the sampler is told, and the record of how well it chose, against slow sums.
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/protocol/participation.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;
using Numbers = std::vector<double>;

std::size_t at(int64_t client) { return static_cast<std::size_t>(client); }

const Federation& federation() {
  static const auto comm = make_single_communicator();
  static const Federation tiny = tiny_federation(*comm);
  return tiny;
}

// a_m of all clients, new in every round and of very different size.
Numbers true_a(int64_t round) {
  RandomStream random(5, Purpose::kData, static_cast<uint64_t>(round));
  Numbers a(at(kClients));
  for (double& value : a) value = std::pow(100, random.uniform());
  a[at(round % kClients)] = 0;
  return a;
}

std::unique_ptr<ClientSampler> make_learner(bool replacement, int64_t per_round = 4) {
  return make_osmd_sampler({.kind = OsmdKind::kFixed, .replacement = replacement, .eta = 2e-5},
                           kClients, per_round);
}

Numbers of_drawn(const Numbers& all, const Draw& draw) {
  Numbers drawn;
  for (const int64_t client : draw.clients) drawn.push_back(all[at(client)]);
  return drawn;
}

// One round, as the trainer drives it.
const Draw& play(Participation& participation, int64_t round) {
  const Numbers a = true_a(round);
  if (participation.needs_all_clients()) participation.observe_all(a);
  const Draw& draw = participation.draw(round);
  const Numbers mine = of_drawn(a, draw);
  participation.observe({.a = mine, .losses = mine});
  return draw;
}

// Passes everything on, and writes down what it was told.
class Spy final : public ClientSampler {
 public:
  explicit Spy(bool asks) : ClientSampler(kClients, 4), asks_(asks) {}
  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    return inner_->draw(round, n, stream);
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    return inner_->impose(n, draws);
  }
  double probability(int64_t client) const override { return inner_->probability(client); }
  const ClientSet& available() const override { return inner_->available(); }
  void toggle(std::span<const int64_t> changed) override {
    toggled.emplace_back(changed.begin(), changed.end());
    inner_->toggle(changed);
  }
  bool needs_all_clients() const override { return asks_; }
  void observe_all(std::span<const double> a) override { a_of_all.assign(a.begin(), a.end()); }

  std::vector<Ids> toggled;
  Numbers a_of_all;

 private:
  bool asks_;
  std::unique_ptr<ClientSampler> inner_ = make_uniform_sampler(kClients, 4);
};

TEST(Participation, AsksForAllClientsOnlyWhenSomebodyNeedsIt) {
  for (const bool asks : {false, true}) {
    for (const bool regret : {false, true}) {
      Spy spy(asks);
      Participation participation(spy, nullptr, federation(), {.regret = regret});
      EXPECT_EQ(participation.needs_all_clients(), asks || regret);
      if (participation.needs_all_clients()) participation.observe_all(true_a(1));
      // A sampler that did not ask is not told: evaluate.regret must not change the run.
      EXPECT_EQ(spy.a_of_all, asks ? true_a(1) : Numbers());
    }
  }
}

// l(q) = 1/K sum a/q over the available, q = p / sum p; the least is (sum sqrt a)^2/K; the regret
// is the sum of the differences so far.
TEST(Participation, RecordsVarianceAndRegret) {
  for (const bool replacement : {true, false}) {
    const auto sampler = make_learner(replacement);
    const auto availability = make_independent_availability(kClients, 0.6);
    Participation participation(*sampler, availability, federation(),
                                {.seed = kSeed, .regret = true});
    std::vector<bool> there(at(kClients), true);
    const Availability slow = make_independent_availability(kClients, 0.6);
    double regret = 0;
    int64_t taught = 0, idle = 0;
    for (int64_t round = 1; round <= 60; ++round) {
      Numbers p;
      for (int64_t client = 0; client < kClients; ++client) {
        p.push_back(sampler->probability(client));
      }
      const Draw& draw = play(participation, round);
      for (const int64_t client : slow(round, kSeed)) there[at(client)].flip();
      const Numbers a = true_a(round);
      double mass = 0, roots = 0, available = 0, variance = 0, draws = 0;
      for (std::size_t c = 0; c < p.size(); ++c) {
        if (!there[c]) continue;
        available += 1;
        mass += p[c];
        roots += std::sqrt(a[c]);
      }
      for (const int64_t count : draw.counts) draws += static_cast<double>(count);
      for (std::size_t c = 0; c < p.size(); ++c) {
        if (there[c]) variance += a[c] / (p[c] / mass) / draws;
      }
      const SamplingRecord& record = participation.record();
      EXPECT_EQ(record.available, available);
      if (available <= 4) {  // everyone took part: there was nothing to decide
        EXPECT_TRUE(std::isnan(record.variance) && std::isnan(record.best));
        ++idle;
      } else {
        EXPECT_EQ(draws, 4);
        regret += variance - roots * roots / draws;
        EXPECT_NEAR(record.variance, variance, 1e-9 * variance);
        EXPECT_NEAR(record.best, roots * roots / draws, 1e-9 * variance);
        EXPECT_GE(record.variance, record.best);
        ++taught;
      }
      EXPECT_NEAR(record.regret, regret, 1e-9 * regret);
    }
    EXPECT_GT(taught, 30);
    EXPECT_GT(idle, 2);
  }
}

// 1/K^2 sum N a/q^2 from the participants alone.
TEST(Participation, EstimatesFromTheParticipants) {
  const auto sampler = make_learner(true);
  Participation participation(*sampler, nullptr, federation(), {.seed = kSeed});
  int64_t repeats = 0;
  for (int64_t round = 1; round <= 20; ++round) {
    Numbers q;
    for (int64_t client = 0; client < kClients; ++client) {
      q.push_back(sampler->probability(client));
    }
    const Draw& draw = play(participation, round);
    double estimate = 0;
    for (std::size_t i = 0; i < draw.size(); ++i) {
      const std::size_t client = at(draw.clients[i]);
      repeats += draw.counts[i] > 1;
      estimate += static_cast<double>(draw.counts[i]) * true_a(round)[client] /
                  (16 * q[client] * q[client]);
    }
    EXPECT_NEAR(participation.record().estimate, estimate, 1e-12 * estimate);
    EXPECT_TRUE(std::isnan(participation.record().regret));
  }
  EXPECT_GT(repeats, 0);
}

TEST(Participation, ImportanceIsByShareOfTheSamplesOrEqual) {
  const auto sampler = make_uniform_sampler(kClients, 4);
  Participation by_samples(*sampler, nullptr, federation(), {});
  Participation equal(*sampler, nullptr, federation(), {.equal_importance = true});
  double sum = 0;
  for (int64_t client = 0; client < kClients; ++client) {
    const auto samples = static_cast<double>(federation().train(client).size());
    const auto share = samples / static_cast<double>(federation().train_samples());
    EXPECT_DOUBLE_EQ(by_samples.importance(client), share);
    EXPECT_DOUBLE_EQ(equal.importance(client), 1.0 / kClients);
    sum += share;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  // The aggregator's shares are by samples in any case.
  const Draw& draw = equal.draw(1);
  for (std::size_t i = 0; i < draw.size(); ++i) {
    EXPECT_EQ(equal.shares()[i], by_samples.importance(draw.clients[i]));
  }
}

TEST(Participation, TellsTheSamplerWhoIsThere) {
  Spy spy(false);
  const auto availability = make_block_availability(kClients, 3, 2);  // [0, 3), [3, 7), [7, 11)
  Participation participation(spy, availability, federation(), {.seed = kSeed});
  const std::vector<std::pair<int64_t, int64_t>> blocks{{0, 3}, {3, 7}, {7, 11}};
  for (int64_t round = 1; round <= 7; ++round) {
    const auto [begin, end] = blocks[at((round - 1) / 2 % 3)];
    const Draw& draw = play(participation, round);
    EXPECT_EQ(participation.record().available, end - begin);
    EXPECT_EQ(draw.size(), std::min<std::size_t>(4, at(end - begin)));
    for (const int64_t client : draw.clients) EXPECT_TRUE(client >= begin && client < end);
  }
  ASSERT_EQ(spy.toggled.size(), 7U);
  EXPECT_EQ(spy.toggled[0], (Ids{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(spy.toggled[1], Ids());
  EXPECT_EQ(std::set<int64_t>(spy.toggled[2].begin(), spy.toggled[2].end()),
            (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Participation, GoesOnFromItsState) {
  for (const double probability : {1.0, 0.6}) {
    const auto straight_sampler = make_learner(true);
    const auto straight_availability = make_independent_availability(kClients, probability);
    Participation straight(*straight_sampler, straight_availability, federation(),
                           {.seed = kSeed, .regret = true});
    for (int64_t round = 1; round <= 9; ++round) play(straight, round);
    State state;
    straight.save(state);

    const auto sampler = make_learner(true);
    const auto availability = make_independent_availability(kClients, probability);
    Participation resumed(*sampler, availability, federation(), {.seed = kSeed, .regret = true});
    resumed.load(state);
    for (int64_t round = 10; round <= 20; ++round) {
      EXPECT_EQ(play(resumed, round).clients, play(straight, round).clients) << round;
      EXPECT_EQ(resumed.drawn().weights, straight.drawn().weights);
      EXPECT_EQ(resumed.line(round), straight.line(round));
    }
  }
}

TEST(Participation, LineHasNothingForWhatIsUnknown) {
  const auto sampler = make_learner(true);
  const auto availability = make_scheduled_availability(std::vector<Presence>{{2, 2, 9}});
  Participation plain(*sampler, availability, federation(), {.seed = kSeed});
  play(plain, 1);
  const auto fields = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',') + 1;
  };
  EXPECT_EQ(fields(Participation::kHeader), 6);
  const std::string line = plain.line(1);
  EXPECT_EQ(line.rfind("1,10,", 0), 0U) << line;
  EXPECT_EQ(line.substr(line.size() - 4), ",,,\n") << line;
  EXPECT_EQ(fields(line), 6);
}

TEST(SummarizeProbabilities, InClosedForm) {
  const auto value = [](const Metrics& metrics, const std::string& name) {
    for (const auto& [key, found] : metrics) {
      if (key == name) return found;
    }
    ADD_FAILURE() << "no " << name;
    return 0.0;
  };
  Numbers shares;
  for (const int64_t share : {7, 1, 5, 3, 9, 2, 8, 4, 10, 6, 11}) {
    shares.push_back(static_cast<double>(share));
  }
  const auto metrics = summarize_probabilities(*make_weighted_sampler(shares, 3));
  double entropy = 0;
  for (const double share : shares) entropy -= share / 66 * std::log(share / 66);
  EXPECT_NEAR(value(metrics, "sampling_entropy"), entropy, 1e-12);
  // The ceil(q 11)-th smallest of 1/66, ..., 11/66.
  EXPECT_NEAR(value(metrics, "sampling_min"), 1 / 66.0, 1e-15);
  EXPECT_NEAR(value(metrics, "sampling_p10"), 2 / 66.0, 1e-15);
  EXPECT_NEAR(value(metrics, "sampling_median"), 6 / 66.0, 1e-15);
  EXPECT_NEAR(value(metrics, "sampling_p90"), 10 / 66.0, 1e-15);
  EXPECT_NEAR(value(metrics, "sampling_max"), 11 / 66.0, 1e-15);
  const auto even = summarize_probabilities(*make_uniform_sampler(7, 2));
  EXPECT_NEAR(value(even, "sampling_entropy"), std::log(7.0), 1e-12);
}

}  // namespace
}  // namespace hanse
