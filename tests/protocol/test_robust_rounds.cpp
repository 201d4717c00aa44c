// Rounds of robust rules and of attackers, against sums over the participants' updates by hand, and
// with the same bits on any number of ranks.
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/aggregation/robust_rule.hpp"
#include "protocol/tiny_training.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;
constexpr std::size_t kRows = static_cast<std::size_t>(kClients);

TinyJob all_clients(std::function<std::unique_ptr<Aggregator>()> rule) {
  return {.sampler = "full", .own_rule = std::move(rule)};
}

TinyJob robust_job(const RobustOptions& options) {
  return all_clients([options] { return make_robust(options); });
}

RobustOptions options_of(const std::string& kind, double f = 0) {
  RobustOptions options;
  options.kind = kind;
  options.byzantine = {f};
  options.weights = ClientWeights::kUniform;
  options.radius = 1.5;
  options.pivot = 4;
  return options;
}

// The updates [K, P] of the first round, each from a round in which it alone counts.
std::vector<Numbers> first_updates() {
  const auto alone = [](std::size_t who) {
    return all_clients([who] {
      return make_rule({.late = true}, [who](const RoundReport&) {
        Mix mix{.coefficients = Numbers(kRows)};
        mix.coefficients[who] = 1;
        return mix;
      });
    });
  };
  const auto start = train_threads(1, alone(0), 0);
  std::vector<Numbers> updates(kRows);
  for (std::size_t who = 0; who < kRows; ++who) {
    const auto end = train_threads(1, alone(who), 1);
    for (std::size_t i = 0; i < end.size(); ++i) {
      updates[who].push_back(static_cast<double>(end[i]) - static_cast<double>(start[i]));
    }
  }
  return updates;
}

Numbers step_of(const TinyJob& job) {
  const auto start = train_threads(1, job, 0), end = train_threads(1, job, 1);
  Numbers step;
  for (std::size_t i = 0; i < end.size(); ++i) {
    step.push_back(static_cast<double>(end[i]) - static_cast<double>(start[i]));
  }
  return step;
}

double dot(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void expect_near(const Numbers& found, const Numbers& expected, double error) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], error) << i;
}

double column_of(const RoundRecord& record, const std::string& name) {
  for (const auto& [key, value] : record.more) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no column " << name;
  return 0;
}

// Clients 2 and 5 send 0.5 u_0 + 2 h - 3 p.
class TwoAttackers : public Attackers {
 public:
  explicit TwoAttackers(ForgedDirection direction) : direction_(direction) {}
  std::vector<char> among(int64_t, std::span<const int64_t> clients) const override {
    std::vector<char> marks;
    for (const int64_t client : clients) marks.push_back(client == 2 || client == 5);
    return marks;
  }
  ForgeNeeds needs() const override { return {.forges = true, .direction = direction_}; }
  void fill(int64_t, int64_t begin, std::span<float> p) const override {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<float>(begin) + 0.25F;
  }
  AttackRow forge(const ForgeView& view) override {
    EXPECT_EQ(view.honest.size(), kRows - 2);
    EXPECT_EQ(std::vector<int64_t>(view.byzantine.begin(), view.byzantine.end()),
              (std::vector<int64_t>{2, 5}));
    EXPECT_EQ(view.gram.n, kRows);
    AttackRow row{.coefficients = Numbers(kRows), .strength = 3};
    row.coefficients[0] = 0.5;
    row.coefficients[kRows - 2] = 2;
    row.coefficients[kRows - 1] = -3;
    return row;
  }

 private:
  ForgedDirection direction_;
};

struct Forged {
  std::vector<Numbers> rows;  // [K, P] as the rule should see them
  Numbers mean;
};

Forged forged_rows(ForgedDirection direction) {
  Forged forged{.rows = first_updates(), .mean = Numbers(static_cast<std::size_t>(kParams))};
  Numbers a;
  for (std::size_t j = 0; j < forged.mean.size(); ++j) {
    double square = 0;
    const auto each_honest = [&](auto work) {
      for (std::size_t i = 0; i < kRows; ++i) {
        if (i != 2 && i != 5) work(forged.rows[i][j]);
      }
    };
    each_honest([&](double u) { forged.mean[j] += u / 9; });
    each_honest([&](double u) { square += std::pow(u - forged.mean[j], 2) / 8; });
    const double h = forged.mean[j];
    const double p = direction == ForgedDirection::kDeviation ? std::sqrt(square)
                     : direction == ForgedDirection::kSign    ? (h > 0) - (h < 0)
                     : direction == ForgedDirection::kOwn     ? 0.25
                                                              : 0;
    a.push_back(0.5 * forged.rows[0][j] + 2 * h - 3 * p);
  }
  forged.rows[2] = forged.rows[5] = a;
  return forged;
}

TinyJob attacked(TinyJob job, ForgedDirection direction) {
  job.attackers = [direction] { return std::make_unique<TwoAttackers>(direction); };
  return job;
}

TEST(ForgedUpdates, AreWhatTheRuleSeesAndWhatItSums) {
  for (const auto direction : {ForgedDirection::kNone, ForgedDirection::kDeviation,
                               ForgedDirection::kSign, ForgedDirection::kOwn}) {
    const Forged forged = forged_rows(direction);
    const auto gram = std::make_shared<Numbers>();
    const TinyJob job = attacked(all_clients([gram] {
                                   return make_rule({.gram = true}, [gram](const RoundReport& r) {
                                     gram->assign(r.gram.begin(), r.gram.end());
                                     Mix mix;
                                     for (std::size_t i = 0; i < kRows; ++i) {
                                       mix.coefficients.push_back(0.1 + 0.02 * double(i));
                                     }
                                     return mix;
                                   });
                                 }),
                                 direction);
    Numbers expected, step(forged.mean.size());
    for (const Numbers& a : forged.rows) {
      for (const Numbers& b : forged.rows) expected.push_back(dot(a, b));
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < step.size(); ++j) {
        step[j] += (0.1 + 0.02 * double(i)) * forged.rows[i][j];
      }
    }
    expect_near(step_of(job), step, 1e-5);
    expect_near(*gram, expected, 1e-4);
    const auto alone = train_threads(1, job, 4);
    for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, job, 4), alone);
  }
}

// Tries a row and notes how far it moves the aggregate.
class Trying final : public TwoAttackers {
 public:
  explicit Trying(std::shared_ptr<double> moved)
      : TwoAttackers(ForgedDirection::kDeviation), moved_(std::move(moved)) {}
  AttackRow forge(const ForgeView& view) override {
    const AttackRow row = TwoAttackers::forge(view);
    Numbers other = row.coefficients;
    other[kRows - 1] = 40;
    view.displacement(other);
    *moved_ = view.displacement(row.coefficients);
    return row;
  }

 private:
  std::shared_ptr<double> moved_;
};

TEST(ForgedUpdates, AreTriedOnTheRuleItself) {
  const Forged forged = forged_rows(ForgedDirection::kDeviation);
  for (const std::string kind : {"multi-krum", "trimmed-mean", "fedavg"}) {
    RobustOptions options = options_of(kind, 1);
    if (kind == "trimmed-mean") options.before = PreRules::parse("nnm");
    if (kind == "fedavg") options.before = PreRules::parse("clip(1)");
    const auto moved = std::make_shared<double>(0);
    TinyJob job = robust_job(options);
    job.attackers = [moved] { return std::make_unique<Trying>(moved); };
    Numbers away = step_of(job);
    for (std::size_t j = 0; j < away.size(); ++j) away[j] -= forged.mean[j];
    EXPECT_NEAR(*moved, dot(away, away), 1e-5 * dot(away, away));
    const double alone = *moved;
    train_threads(3, job, 1);
    EXPECT_EQ(*moved, alone);
    EXPECT_GT(alone, 1e-6);
  }
}

// They send the last aggregate again, and note its squared length.
class Repeating final : public TwoAttackers {
 public:
  explicit Repeating(std::shared_ptr<Numbers> squares)
      : TwoAttackers(ForgedDirection::kNone), squares_(std::move(squares)) {}
  ForgeNeeds needs() const override { return {.forges = true, .last = true}; }
  AttackRow forge(const ForgeView& view) override {
    EXPECT_EQ(view.gram.n, kRows + 1);
    squares_->push_back(view.gram(kRows, kRows));
    AttackRow row{.coefficients = Numbers(kRows + 1)};
    row.coefficients.back() = 1;
    return row;
  }

 private:
  std::shared_ptr<Numbers> squares_;
};

TEST(ForgedUpdates, MayBeTheLastAggregate) {
  const auto squares = std::make_shared<Numbers>(), more = std::make_shared<Numbers>();
  const auto rule = [](std::shared_ptr<Numbers> found) {
    TinyJob job = all_clients([] {
      return make_rule({.gram = true}, [](const RoundReport& r) {
        EXPECT_NEAR(r.gram[2 * kRows + 2], r.gram[5 * kRows + 2], 1e-12);  // both send the same
        return Mix{.coefficients = Numbers(kRows, 1.0 / double(kRows))};
      });
    });
    job.attackers = [found] { return std::make_unique<Repeating>(found); };
    return job;
  };
  std::vector<std::vector<float>> models;
  for (int64_t rounds = 0; rounds < 3; ++rounds) {
    models.push_back(train_threads(1, rule(more), rounds));
  }
  const auto alone = train_threads(1, rule(squares), 3);
  ASSERT_EQ(squares->size(), 3U);
  EXPECT_EQ((*squares)[0], 0);
  for (std::size_t round = 1; round < 3; ++round) {
    double moved = 0;
    for (std::size_t j = 0; j < alone.size(); ++j) {
      moved += std::pow(double(models[round][j]) - double(models[round - 1][j]), 2);
    }
    EXPECT_GT(moved, 1e-6);
    EXPECT_NEAR((*squares)[round], moved, 1e-5 * moved);
  }
  for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(train_threads(ranks, rule(more), 3), alone);
}

// What they send is not finite.
class Broken final : public TwoAttackers {
 public:
  Broken() : TwoAttackers(ForgedDirection::kNone) {}
  AttackRow forge(const ForgeView& view) override {
    AttackRow row = TwoAttackers::forge(view);
    std::ranges::fill(row.coefficients, NAN);
    return row;
  }
};

TEST(ForgedUpdates, ThatAreNotFiniteEndARunUnlessTheRuleLeavesThemOut) {
  TinyJob job = robust_job(options_of("multi-krum", 2));
  job.attackers = [] { return std::make_unique<Broken>(); };
  run_threads(2, [&](Communicator& comm) {
    TinyTraining training(comm, job);
    const RoundRecord record = training.trainer->round(false);
    EXPECT_FALSE(record.failed);
    if (comm.rank() != 0) return;
    EXPECT_EQ(column_of(record, "rejected"), 2);
    EXPECT_EQ(column_of(record, "byzantine_weight"), 0);
  });
  job.own_rule = nullptr;
  run_threads(2, [&](Communicator& comm) {
    TinyTraining training(comm, job);
    const bool failed = training.trainer->round(false).failed;
    if (comm.rank() != 0) return;
    EXPECT_TRUE(failed);
    expect_error<TrainingError>([&] { std::rethrow_exception(training.trainer->failure()); },
                                {"client 2", "not finite"});
  });
}

TEST(RobustRounds, LeaveOutUpdatesThatAreNotFinite) {
  for (const std::string kind : {"multi-krum", "trimmed-mean", "centered-clipping"}) {
    run_threads(3, [&](Communicator& comm) {
      TinyTraining training(comm, robust_job(options_of(kind, 1)));
      training.update->spoil = [](const ClientTask& task, ClientOutcome& outcome) {
        if (task.client != 3) return;
        task.row[1] = NAN;
        outcome.loss = NAN;
      };
      const RoundRecord record = training.trainer->round(false);
      EXPECT_FALSE(record.failed);
      if (comm.rank() != 0) return;
      EXPECT_EQ(column_of(record, "rejected"), 1);
      EXPECT_TRUE(std::isfinite(record.loss));
      for (const float value : training.trainer->model_row()) EXPECT_TRUE(std::isfinite(value));
    });
  }
}

TEST(RobustRounds, WithTooFewParticipantsMakeNoStep) {
  RobustOptions options = options_of("krum", 5);
  options.shortfall = Shortfall::kSkip;
  for (const std::string kind : {"krum", "trimmed-mean"}) {
    options.kind = kind;
    options.byzantine = {9.0};
    TinyJob job = robust_job(options);
    job.server.optimizer = "momentum";
    EXPECT_EQ(train_threads(2, job, 2), train_threads(1, job, 0));
  }
}

// v <- v + mean of (u_i - v) min(1, radius / |u_i - v|), from the last step.
TEST(RobustRounds, OfCenteredClippingStartFromTheLastStep) {
  RobustOptions options = options_of("centered-clipping");
  options.iterations = 2;
  options.radius = 0.4;
  const auto gram = std::make_shared<std::vector<Numbers>>();
  const auto rule = [options] { return make_robust(options); };
  const std::vector<Numbers> updates = first_updates();
  Numbers v(static_cast<std::size_t>(kParams));
  for (int step = 0; step < 2; ++step) {
    Numbers moved(v.size());
    for (const Numbers& u : updates) {
      Numbers away;
      for (std::size_t j = 0; j < v.size(); ++j) away.push_back(u[j] - v[j]);
      const double t = std::min(1.0, 0.4 / std::sqrt(dot(away, away))) / double(kRows);
      for (std::size_t j = 0; j < v.size(); ++j) moved[j] += t * away[j];
    }
    for (std::size_t j = 0; j < v.size(); ++j) v[j] += moved[j];
  }
  expect_near(step_of(all_clients(rule)), v, 1e-5);

  // The next round goes on from there, also after a resume.
  run_threads(1, [&](Communicator& comm) {
    TinyTraining training(comm, all_clients(rule));
    for (int round = 0; round < 3; ++round) training.trainer->round(false);
    State state;
    training.trainer->save(state);
    TinyTraining other(comm, all_clients(rule));
    other.trainer->resume(state);
    training.trainer->round(false);
    other.trainer->round(false);
    const auto row = training.trainer->model_row(), same = other.trainer->model_row();
    EXPECT_TRUE(std::ranges::equal(row, same));
    const auto& kept = state.get<float>("weighing/last_step");
    EXPECT_TRUE(std::ranges::any_of(kept, [](float value) { return value != 0; }));
  });
}

TEST(RobustRounds, HaveTheSameBitsOnAnyRanks) {
  std::vector<std::string> kinds{"fedavg"};
  for (const RobustRule& rule : robust_rules()) kinds.push_back(rule.name);
  for (const std::string& kind : kinds) {
    for (const char* before : {"none", "clip(1),nnm", "bucketing(2)"}) {
      RobustOptions options = options_of(kind, 2);
      options.before = PreRules::parse(before);
      if (options.kind == "fltrust") continue;
      if (options.kind == "monna" && std::string(before) == "bucketing(2)") continue;
      options.shortfall = Shortfall::kSkip;
      const TinyJob job = attacked(robust_job(options), ForgedDirection::kDeviation);
      const auto alone = train_threads(1, job, 3);
      for (int ranks = 2; ranks <= 4; ++ranks) {
        EXPECT_EQ(train_threads(ranks, job, 3), alone) << kind << " " << before << " " << ranks;
      }
    }
  }
}

TEST(RobustRounds, OfATrimmedMeanAreTheRuleOnEachColumn) {
  const std::vector<Numbers> updates = first_updates();
  Numbers expected;
  for (std::size_t j = 0; j < static_cast<std::size_t>(kParams); ++j) {
    Numbers column;
    for (const Numbers& u : updates) column.push_back(u[j]);
    std::ranges::sort(column);
    expected.push_back(std::accumulate(column.begin() + 3, column.end() - 3, 0.0) / 5);
  }
  expect_near(step_of(robust_job(options_of("trimmed-mean", 3))), expected, 1e-6);
}

TEST(RobustRounds, MeasureHowFarTheRuleIsFromTheHonestMean) {
  const Forged forged = forged_rows(ForgedDirection::kDeviation);
  double spread = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < forged.mean.size() && i != 2 && i != 5; ++j) {
      spread += std::pow(forged.rows[i][j] - forged.mean[j], 2) / 9;
    }
  }
  for (const std::string kind : {"geometric-median", "median"}) {
    const TinyJob job = attacked(robust_job(options_of(kind, 2)), ForgedDirection::kDeviation);
    Numbers away = step_of(job);
    for (std::size_t j = 0; j < away.size(); ++j) away[j] -= forged.mean[j];
    std::vector<double> found;
    for (int ranks = 1; ranks <= 3; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        TinyTraining training(comm, job);
        const RoundRecord record = training.trainer->round(false);
        if (comm.rank() != 0) return;
        found.push_back(column_of(record, "kappa_hat"));
        EXPECT_EQ(column_of(record, "attack_strength"), 3);
      });
      EXPECT_EQ(found.back(), found.front());
    }
    EXPECT_NEAR(found.front(), dot(away, away) / spread, 1e-4 * found.front());
  }
}

}  // namespace
}  // namespace hanse
