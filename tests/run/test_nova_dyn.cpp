// FedNova and FedDyn over rounds of jobs, against their formulas.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/client/updates.hpp"
#include "hanse/job/job.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/load_job.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<double>;

constexpr int64_t kRounds = 4;
constexpr int64_t kClients = 5;

// Clients of unequal size, all in every round.
Job small_job(const std::string& update) {
  Job job;
  job.run.seed = 3;
  job.data.kind = "random";
  job.data.shape = {5};
  job.data.classes = 3;
  job.data.test_fraction = 0;
  job.federation.clients = kClients;
  job.federation.partition = "power-law";
  job.federation.samples = 12;
  job.model.kind = "linear";
  job.client.kind = update;
  job.client.epochs = 2;
  job.client.batch = 3;
  job.client.lr = 0.2;
  job.sampler.kind = "full";
  job.aggregator.weights = ClientWeights::kSamples;
  return job;
}

std::vector<float> train(const Job& job, Communicator& comm) {
  check_job(job);
  const auto parts = assemble(job, comm);
  Protocol& protocol = parts->protocol();
  protocol.initialize_model();
  for (int64_t round = 0; round < kRounds; ++round) protocol.round(false);
  return {protocol.model_row().begin(), protocol.model_row().end()};
}

std::vector<float> train(const Job& job, int ranks) {
  std::vector<float> model;
  run_threads(ranks, [&](Communicator& comm) {
    auto mine = train(job, comm);
    if (comm.rank() == 0) model = std::move(mine);
  });
  return model;
}

// The job's data and model, for slow training beside it.
struct Reference {
  explicit Reference(const Job& like)
      : comm(make_single_communicator()), parts(assemble(like, *comm)), job(like) {
    std::vector<float> row(static_cast<std::size_t>(parts->model->n_params()));
    RandomStream stream(3, Purpose::kInitialize);
    parts->model->initialize(row, stream);
    theta.assign(row.begin(), row.end());
  }

  const Federation& federation() const { return parts->federation; }
  double share(int64_t client) const {
    return static_cast<double>(federation().train(client).size()) /
           static_cast<double>(federation().train_samples());
  }

  // theta_i - theta of plain SGD.
  Row update(int64_t client, int64_t round) {
    ClientOptions options = job.client;
    options.kind = "sgd";
    std::vector<float> row(theta.begin(), theta.end());
    make_sgd(options, federation(), *parts->model)
        ->train({.client = client, .round = round, .seed = 3, .row = row});
    Row moved;
    for (std::size_t i = 0; i < row.size(); ++i) {
      moved.push_back(static_cast<double>(row[i]) - theta[i]);
    }
    return moved;
  }

  // The mean over all the client's samples.
  std::vector<float> gradient(int64_t client, const Row& w) {
    const SampleRange range = federation().train(client);
    std::vector<float> features(
        static_cast<std::size_t>(range.size() * federation().sample_values()));
    federation().copy(range, features.data());
    std::vector<float> g(w.size());
    const std::vector<float> row(w.begin(), w.end());
    RandomStream noise(0, Purpose::kDropout);
    parts->model->loss_and_gradient(row,
                                    {.features = features.data(),
                                     .labels = federation().labels().data() + range.begin,
                                     .rows = range.size()},
                                    noise, g);
    return g;
  }

  std::unique_ptr<Communicator> comm;
  std::unique_ptr<Assembly> parts;
  Job job;
  Row theta;
};

void expect_near(const std::vector<float>& found, const Row& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << i;
}

// theta <- theta + (sum_j p_j tau_j) sum_i p_i (theta_i - theta) / tau_i, tau by the paper's
// formula.
TEST(FedNova, DividesByEffectiveSteps) {
  for (const double rho : {0.0, 0.6}) {
    Job job = small_job("fednova");
    job.client.momentum = rho;
    Reference r(job);
    Row taus;
    double mean = 0;
    for (int64_t c = 0; c < kClients; ++c) {
      const auto steps =
          static_cast<double>(local_steps(job.client, r.federation().train(c).size()));
      taus.push_back((steps - rho * (1 - std::pow(rho, steps)) / (1 - rho)) / (1 - rho));
      const int64_t samples = r.federation().train(c).size();
      EXPECT_NEAR(RoundSteps(job.client).effective_steps(1, samples), taus.back(), 1e-9);
      mean += r.share(c) * taus.back();
    }
    EXPECT_NE(taus[0], taus[1]);
    for (int64_t round = 1; round <= kRounds; ++round) {
      Row step(r.theta.size());
      for (int64_t c = 0; c < kClients; ++c) {
        const Row update = r.update(c, round);
        for (std::size_t i = 0; i < step.size(); ++i) {
          step[i] += mean * r.share(c) * update[i] / taus[static_cast<std::size_t>(c)];
        }
      }
      for (std::size_t i = 0; i < step.size(); ++i) r.theta[i] += step[i];
    }
    const auto found = train(job, 1);
    expect_near(found, r.theta);
    EXPECT_EQ(train(job, 3), found);
    job.client.kind = "sgd";
    EXPECT_NE(train(job, 1), found);
  }
}

// x <- x - lr (g - h_i + alpha (x - theta)) and so on, as printed, with h of the server in the
// paper's units.
TEST(FedDyn, FollowsTheAlgorithm) {
  constexpr double kAlpha = 0.3, kRate = 0.2;
  Job job = small_job("feddyn");
  job.client.second_order.alpha = kAlpha;
  job.client.batch = 0;
  job.client.steps = 3;
  job.aggregator.weights = ClientWeights::kUniform;
  Reference r(job);
  const std::size_t n = r.theta.size();
  std::vector<Row> own(kClients, Row(n));
  Row server(n);
  for (int64_t round = 1; round <= kRounds; ++round) {
    Row sum(n);
    for (int64_t c = 0; c < kClients; ++c) {
      Row& h = own[static_cast<std::size_t>(c)];
      Row x = r.theta;
      for (int step = 0; step < 3; ++step) {
        const auto g = r.gradient(c, x);
        for (std::size_t i = 0; i < n; ++i) {
          x[i] -= kRate * (static_cast<double>(g[i]) - h[i] + kAlpha * (x[i] - r.theta[i]));
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        h[i] -= kAlpha * (x[i] - r.theta[i]);
        sum[i] += x[i] - r.theta[i];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      server[i] -= kAlpha / kClients * sum[i];
      r.theta[i] += sum[i] / kClients - server[i] / kAlpha;
    }
  }
  const auto found = train(job, 1);
  expect_near(found, r.theta);
  EXPECT_EQ(train(job, 3), found);
  // With some of the clients a round the server moves h by their share of all.
  job.sampler.kind = "uniform";
  job.sampler.per_round = 2;
  const auto some = train(job, 1);
  EXPECT_NE(some, found);
  EXPECT_EQ(train(job, 2), some);
}

TEST(NovaAndDyn, RefuseWhatTheyCannotCount) {
  const auto refuses = [](const Job& job, std::initializer_list<std::string> parts) {
    std::string said;
    try {
      train(job, 1);
    } catch (const std::exception& error) {
      said = error.what();
    }
    expect_parts(said, parts);
  };
  Job job = small_job("fednova");
  job.client.optimizer.kind = "adam";
  refuses(job, {"fednova", "(client.optimizer)"});
  job = small_job("fednova");
  job.aggregator.kind = "fedmgda+";
  refuses(job, {"fedmgda+", "(client.update)"});
  job = small_job("feddyn");
  job.aggregator.kind = "afl";
  refuses(job, {"feddyn", "(aggregator.kind)"});
  job = small_job("feddyn");
  job.server.optimizer = "adam";
  refuses(job, {"feddyn", "(server.optimizer)"});
  job = small_job("feddyn");
  job.client.momentum = 0.5;
  refuses(job, {"feddyn", "(client.momentum)"});
}

}  // namespace
}  // namespace hanse
