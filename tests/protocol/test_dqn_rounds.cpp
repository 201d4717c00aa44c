// Rounds of rules on inner products, over clients with quadratic losses: the step of the whole
// machinery is the rule's, the bits do not depend on the ranks, every loss falls, and dqn-fed
// arrives sooner.
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/rules/aggregation/multi_objective.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/trainer_fixture.hpp"
#include "rules/aggregation/simplex.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int64_t kParameters = 6;

// Four silos of twelve samples; features of unlike scale make the losses badly conditioned.
std::vector<Samples> silos() {
  RandomStream random(11, Purpose::kData);
  std::vector<Samples> clients;
  for (int c = 0; c < 4; ++c) {
    Samples& samples = clients.emplace_back();
    for (int i = 0; i < 12; ++i) {
      auto& x = samples.x.emplace_back();
      for (int64_t j = 0; j < kParameters; ++j) {
        x.push_back(static_cast<float>(random.normal() * std::pow(0.5, j)));
      }
      samples.y.push_back(static_cast<float>(2 * random.normal()));
    }
  }
  return clients;
}

struct Rule {
  std::function<std::unique_ptr<Aggregator>()> aggregator;
  bool quasi_newton = false;
  double server_lr = 1;
};

struct Silos : TrainerFixture<> {
  Silos(Communicator& all, const Rule& rule, double lr)
      : TrainerFixture(all, [](Communicator& local) { return make_federation(local, silos()); }) {
    model = make_model(
        {.kind = "linear", .loss = "squared-error", .init = ModelInit::kZeros, .bias = false},
        federation.sample_shape(), 0);
    const ClientOptions client{{.batch = 0}, {.lr = lr}};
    update = (rule.quasi_newton ? make_quasi_newton : make_sgd)(client, federation, *model);
    aggregator = rule.aggregator();
    sampler = make_full_sampler(4);
    settings.server.lr = rule.server_lr;
    start();
  }
};

RoundRecord round_of(Silos& silos) {
  const RoundRecord record = silos.trainer->round(false);
  if (silos.trainer->failure()) std::rethrow_exception(silos.trainer->failure());
  return record;
}

// Gradients [clients, P] and losses at w, in double.
struct Landscape {
  MatrixXd gradients;
  VectorXd losses;
};

Landscape landscape_at(const Regression& problem, std::span<const float> row) {
  const Numbers w(row.begin(), row.end());
  Landscape found{MatrixXd(4, kParameters), VectorXd(4)};
  for (std::size_t c = 0; c < 4; ++c) {
    Numbers g;
    found.losses[static_cast<Index>(c)] = problem.loss_and_gradient(c, w, g);
    found.gradients.row(static_cast<Index>(c)) =
        Eigen::Map<const VectorXd>(g.data(), kParameters).transpose();
  }
  return found;
}

// |the shortest convex combination of the gradients|: zero at Pareto-stationary points.
double stationarity(const Landscape& at) {
  const MatrixXd gram = at.gradients * at.gradients.transpose() + 1e-14 * MatrixXd::Identity(4, 4);
  const std::vector<double> h(gram.data(), gram.data() + gram.size());
  const auto lambda = minimize_on_simplex(h, std::vector<double>(4), std::vector<double>(4, 0.25));
  return (at.gradients.transpose() * Eigen::Map<const VectorXd>(lambda.data(), 4)).norm();
}

const Rule kDqn{.aggregator = [] { return make_dqn_fed(0, 30); }, .quasi_newton = true};

std::vector<float> row_after(int ranks, const Rule& rule, int rounds) {
  std::vector<float> row;
  run_threads(ranks, [&](Communicator& comm) {
    Silos silos(comm, rule, 0.1);
    for (int round = 0; round < rounds; ++round) round_of(silos);
    if (comm.rank() != 0) return;
    const auto theta = silos.trainer->model_row();
    row.assign(theta.begin(), theta.end());
  });
  return row;
}

TEST(DqnRounds, FirstStepIsTheShortestOneOfItsRates) {
  const Regression problem(silos());
  const Rule rule{.aggregator = [] { return make_dqn_fed(0, 0); }, .quasi_newton = true};
  const auto row = row_after(1, rule, 1);
  const MatrixXd g = landscape_at(problem, std::vector<float>(kParameters)).gradients;
  const VectorXd rates = 0.1 * g.rowwise().squaredNorm();
  const VectorXd x = g.transpose() * (g * g.transpose()).ldlt().solve(rates);
  for (Index i = 0; i < kParameters; ++i) {
    EXPECT_NEAR(row[static_cast<std::size_t>(i)], -x[i], 1e-5 * x.norm());
  }
}

TEST(DqnRounds, SameBitsOnAnyRanks) {
  const auto alone = row_after(1, kDqn, 9);
  for (int ranks = 2; ranks <= 5; ++ranks) EXPECT_EQ(row_after(ranks, kDqn, 9), alone) << ranks;
}

// Parts of updates go from every rank to every other, before the round's findings; the losses of
// trials behind them.
TEST(DqnRounds, BytesAreThoseOfAllRanks) {
  const Rule fedmgda{.aggregator = [] { return make_fedmgda(1, ClientWeights::kUniform); }};
  for (const Rule* rule : {&kDqn, &fedmgda}) {
    for (int ranks = 2; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        Silos silos(comm, *rule, 0.1);
        for (int round = 1; round <= 3; ++round) {
          const int64_t before = comm.bytes_moved();
          const RoundRecord record = round_of(silos);
          int64_t sent = comm.bytes_moved() - before;
          comm.reduce(std::span(&sent, 1), ReduceOp::kSum, 0);
          EXPECT_TRUE(comm.rank() != 0 || record.bytes_sent == sent) << record.bytes_sent;
        }
      });
    }
  }
}

TEST(DqnRounds, EveryLossFallsInEveryRound) {
  const Regression problem(silos());
  run_threads(1, [&](Communicator& comm) {
    Silos silos(comm, kDqn, 0.1);
    VectorXd before = landscape_at(problem, silos.trainer->model_row()).losses;
    for (int round = 1; round <= 8; ++round) {
      const RoundRecord record = round_of(silos);
      const VectorXd after = landscape_at(problem, silos.trainer->model_row()).losses;
      for (Index c = 0; c < 4; ++c) EXPECT_LT(after[c], before[c]) << "round " << round;
      EXPECT_GT(std::ranges::find(record.more, "scale", &Metrics::value_type::first)->second, 0);
      before = after;
    }
  });
}

// Rounds until the gradients have a convex combination shorter than a twentieth of that at the
// start; `most` when it takes longer.
int rounds_to_stationary(const Rule& rule, double lr, int most) {
  const Regression problem(silos());
  int needed = most;
  run_threads(1, [&](Communicator& comm) {
    Silos silos(comm, rule, lr);
    const double goal = stationarity(landscape_at(problem, silos.trainer->model_row())) / 20;
    for (int round = 1; round <= most; ++round) {
      round_of(silos);
      if (stationarity(landscape_at(problem, silos.trainer->model_row())) > goal) continue;
      needed = round;
      return;
    }
  });
  return needed;
}

TEST(DqnRounds, ArriveSoonerThanFirstOrderRules) {
  constexpr int kMost = 400;
  const int dqn = rounds_to_stationary(kDqn, 0.1, kMost);
  const auto best = [&](const auto& rule_of) {
    int fewest = kMost;
    for (const double rate : {0.03, 0.1, 0.3, 0.6, 1.0}) {
      fewest = std::min(fewest, rounds_to_stationary(rule_of(rate), rate, kMost));
    }
    return fewest;
  };
  const int fedavg = best([](double) {
    return Rule{.aggregator = [] {
      return make_fedavg(ClientWeights::kUniform, Estimator::kNormalized, 4);
    }};
  });
  const int fedmgda = best([](double rate) {  // its updates have length 1
    return Rule{.aggregator = [] { return make_fedmgda(1, ClientWeights::kUniform); },
                .server_lr = rate};
  });
  EXPECT_LT(dqn, 15);
  EXPECT_LT(3 * dqn, fedavg);
  EXPECT_LT(3 * dqn, fedmgda);
  RecordProperty("dqn_rounds", dqn);
  RecordProperty("fedavg_rounds", fedavg);
  RecordProperty("fedmgda_rounds", fedmgda);
}

// A client whose update is not a number, on a rank that may not be the server's.
class OneFails final : public LocalUpdate {
 public:
  explicit OneFails(std::unique_ptr<LocalUpdate> inner)
      : LocalUpdate(inner->state_blocks()), inner_(std::move(inner)) {}
  ClientOutcome train(const ClientTask& task) override {
    const ClientOutcome outcome = inner_->train(task);
    if (task.client == 2 && task.round == 2) task.row[1] = NAN;
    return outcome;
  }
  bool sends_direction() const override { return inner_->sends_direction(); }

 private:
  std::unique_ptr<LocalUpdate> inner_;
};

TEST(DqnRounds, ANanOfOneClientEndsTheRunByItsName) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      Silos silos(comm, kDqn, 0.1);
      auto inner = std::move(silos.update);
      silos.update = std::make_unique<OneFails>(std::move(inner));
      silos.start();
      FederatedTrainer& trainer = *silos.trainer;
      const RoundRecord first = trainer.round(false);
      EXPECT_FALSE(first.failed);
      EXPECT_TRUE(std::isnan(first.mixed_loss));  // directions weigh no losses
      const RoundRecord record = trainer.round(false);
      if (comm.rank() == 0) {
        EXPECT_TRUE(record.failed);
      }
      if (!trainer.failure()) return;
      expect_error<TrainingError>([&] { std::rethrow_exception(trainer.failure()); },
                                  {"client 2", "round 2"});
    });
  }
}

}  // namespace
}  // namespace hanse
