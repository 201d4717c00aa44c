// FedNew and FedNL over whole rounds: fixed points of quadratics, and logistic regression on four
// hospitals.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/second_order.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/resume.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/data_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

struct NewtonJob {
  bool heart = false;  // else the rivals
  ClientWeights weights = ClientWeights::kSamples;
  ClientOptions client{{.batch = 0}, {.lr = 0.5, .weight_decay = 0.01}, {.kind = "fednew"}};
};

Federation load(const NewtonJob& job, Communicator& host) {
  if (!job.heart) return make_federation(host, rivals({3, 7, 4, 5, 4}));
  DataOptions data{.kind = "csv",
                   .path = data_folder("/heart/heart.csv"),
                   .client_column = "hospital",
                   .standardize = Standardize::kClient};
  data.test_fraction = 0;
  return Federation::load(data, {.partition = "by-column"}, 1, host);
}

ModelOptions model_options(const NewtonJob& job) {
  return {.kind = "linear",
          .loss = job.heart ? "binary-logistic" : "squared-error",
          .init = ModelInit::kZeros};
}

std::unique_ptr<LocalUpdate> make_update(const NewtonJob& job, const Federation& federation,
                                         Model& model) {
  if (job.client.kind == "fednew") return make_fednew(job.client, federation, model);
  if (job.client.kind == "fednl") return make_fednl(job.client, federation, model);
  return make_sgd(job.client, federation, model);
}

struct NewtonTraining : TrainerFixture<> {
  NewtonTraining(Communicator& all, const NewtonJob& job)
      : TrainerFixture(all, [&](Communicator& local) { return load(job, local); }),
        penalty(job.client.weight_decay) {
    model = make_model(model_options(job), federation.sample_shape(), federation.classes());
    update = make_update(job, federation, *model);
    const int64_t clients = federation.clients();
    aggregator = make_fedavg(job.weights, Estimator::kNormalized, clients);
    for (int64_t c = 0; c < clients; ++c) {
      const auto n = static_cast<double>(federation.train(c).size());
      shares.push_back(job.weights == ClientWeights::kUniform
                           ? 1 / static_cast<double>(clients)
                           : n / static_cast<double>(federation.samples()));
    }
    sampler = make_full_sampler(clients);
    if (job.client.kind == "fednl") {
      optimizer = make_newton_optimizer(job.client.second_order, model->n_params());
    }
    settings.equal_importance = job.weights == ClientWeights::kUniform;
    start();
  }

  void rounds(int count) {
    for (int i = 0; i < count; ++i) trainer->round(false);
  }

  VectorXd model_row() const {
    const auto row = trainer->model_row();
    return Eigen::Map<const Eigen::VectorXf>(row.data(), static_cast<Eigen::Index>(row.size()))
        .cast<double>();
  }

  // Samples of a client with a one behind them, [n, d].
  MatrixXd inputs(int64_t client) const {
    const SampleRange range = federation.train(client);
    const auto width = federation.sample_values();
    std::vector<float> values(static_cast<std::size_t>(range.size() * width));
    federation.copy(range, values.data());
    MatrixXd x = MatrixXd::Ones(range.size(), width + 1);
    for (int64_t i = 0; i < range.size(); ++i) {
      for (int64_t j = 0; j < width; ++j) {
        x(i, j) = values[static_cast<std::size_t>(i * width + j)];
      }
    }
    return x;
  }

  // Gradient and Hessian of f_i, the client's mean loss + penalty/2 |w|^2, in float64.
  struct Derivatives {
    VectorXd gradient;
    MatrixXd hessian;
  };
  Derivatives derivatives(int64_t client, const VectorXd& w) const {
    const MatrixXd x = inputs(client);
    const bool logistic = federation.classes() == 2;
    const SampleRange range = federation.train(client);
    VectorXd residual = x * w, curvature = VectorXd::Ones(x.rows());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      const auto sample = static_cast<std::size_t>(range.begin + i);
      if (logistic) {
        const double sigma = 1 / (1 + std::exp(-residual[i]));
        curvature[i] = sigma * (1 - sigma);
        residual[i] = sigma - federation.labels()[sample];
      } else {
        residual[i] -= federation.targets()[sample];
      }
    }
    const auto n = static_cast<double>(x.rows());
    return {x.transpose() * residual / n + penalty * w,
            x.transpose() * curvature.asDiagonal() * x / n +
                penalty * MatrixXd::Identity(x.cols(), x.cols())};
  }
  Derivatives mean(const VectorXd& w) const {
    Derivatives sum{VectorXd::Zero(w.size()), MatrixXd::Zero(w.size(), w.size())};
    for (int64_t c = 0; c < federation.clients(); ++c) {
      const Derivatives own = derivatives(c, w);
      sum.gradient += shares[static_cast<std::size_t>(c)] * own.gradient;
      sum.hessian += shares[static_cast<std::size_t>(c)] * own.hessian;
    }
    return sum;
  }
  // Newton's method finds it for f = sum_i w_i f_i in float64.
  VectorXd minimizer() const {
    VectorXd w = VectorXd::Zero(model->n_params());
    for (int i = 0; i < 50; ++i) {
      const Derivatives at = mean(w);
      w -= at.hessian.ldlt().solve(at.gradient);
    }
    return w;
  }

  double penalty;
  std::vector<double> shares;  // w_i
};

NewtonJob job_of(const std::string& kind, bool heart) {
  NewtonJob job;
  job.heart = heart;
  job.client.kind = kind;
  return job;
}

double gap(const NewtonTraining& training) {
  return training.mean(training.model_row()).gradient.norm();
}

// x -> x*, lambda_i -> grad f_i(x*), y -> 0, for clients weighed by samples and equally.
TEST(FedNewRounds, FixedPointOfQuadratics) {
  for (const ClientWeights weights : {ClientWeights::kSamples, ClientWeights::kUniform}) {
    NewtonJob job = job_of("fednew", false);
    job.weights = weights;
    const auto comm = make_single_communicator();
    NewtonTraining training(*comm, job);
    const VectorXd optimum = training.minimizer();
    training.rounds(300);
    EXPECT_LT((training.model_row() - optimum).norm(), 1e-4) << name_of(weights);
    for (int64_t c = 0; c < 5; ++c) {
      const VectorXd gradient = training.derivatives(c, optimum).gradient;
      const auto state = training.trainer->client_states()->existing_row(c);
      EXPECT_GT(gradient.norm(), 0.1);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(state[i], gradient[static_cast<Eigen::Index>(i)], 5e-4)
            << name_of(weights) << c;
        EXPECT_NEAR(state[3 + i], 0, 2e-4);
      }
    }
  }
}

// A quadratic's Hessian is known after the first round, whichever way: then one step is the last.
TEST(FedNlRounds, OneNewtonStepSolvesQuadratics) {
  for (const ClientWeights weights : {ClientWeights::kSamples, ClientWeights::kUniform}) {
    for (const HessianStart start : {HessianStart::kHessian, HessianStart::kZero}) {
      NewtonJob job = job_of("fednl", false);
      job.weights = weights;
      job.client.second_order.rank = 3;
      job.client.second_order.hessian_start = start;
      const auto comm = make_single_communicator();
      NewtonTraining training(*comm, job);
      const VectorXd optimum = training.minimizer();
      training.rounds(1);
      const bool solved = (training.model_row() - optimum).norm() < 1e-5;
      EXPECT_EQ(solved, start == HessianStart::kHessian) << name_of(weights);
      training.rounds(1);
      EXPECT_LT((training.model_row() - optimum).norm(), 1e-5)
          << name_of(weights) << name_of(start);
    }
  }
}

// Algorithm 1 in float64: C = the eigenpairs of largest magnitude.
TEST(FedNlRounds, FollowsTheAlgorithm) {
  for (const Safeguard safeguard : {Safeguard::kFrobenius, Safeguard::kProjection}) {
    for (const HessianStart start : {HessianStart::kHessian, HessianStart::kZero}) {
      NewtonJob job = job_of("fednl", true);
      job.client.second_order.rank = 2;
      job.client.second_order.hessian_rate = 0.75;
      job.client.second_order.hessian_start = start;
      job.client.second_order.safeguard = safeguard;
      job.client.second_order.least_eigenvalue = 0.05;
      const auto comm = make_single_communicator();
      NewtonTraining training(*comm, job);
      VectorXd x = training.model_row();
      const Eigen::Index d = x.size();
      std::vector<MatrixXd> h(4, MatrixXd::Zero(d, d));
      for (std::size_t c = 0; c < 4 && start == HessianStart::kHessian; ++c) {
        h[c] = training.derivatives(static_cast<int64_t>(c), x).hessian;
      }
      for (int round = 0; round < 6; ++round) {
        MatrixXd estimate = MatrixXd::Zero(d, d);
        double distance = 0;
        const VectorXd g = training.mean(x).gradient;
        for (std::size_t c = 0; c < 4; ++c) {
          estimate += training.shares[c] * h[c];
          const MatrixXd off = training.derivatives(static_cast<int64_t>(c), x).hessian - h[c];
          distance += training.shares[c] * off.norm();
          const Eigen::JacobiSVD<MatrixXd> svd(off, Eigen::ComputeFullU | Eigen::ComputeFullV);
          for (Eigen::Index k = 0; k < 2; ++k) {
            h[c] += 0.75 * svd.singularValues()[k] * svd.matrixU().col(k) *
                    svd.matrixV().col(k).transpose();
          }
        }
        if (safeguard == Safeguard::kFrobenius) {
          x -= (estimate + distance * MatrixXd::Identity(d, d)).ldlt().solve(g);
        } else {
          const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(estimate);
          const VectorXd raised = eigen.eigenvalues().cwiseMax(0.05);
          x -= eigen.eigenvectors() * (eigen.eigenvectors().transpose() * g).cwiseQuotient(raised);
        }
        training.rounds(1);
        ASSERT_LT((training.model_row() - x).norm(), 2e-4 * (1 + x.norm()))
            << name_of(safeguard) << " " << name_of(start) << " round " << round + 1;
      }
    }
  }
}

// The gradient norm of the regularised logistic regression, whose first is 0.4, against fedavg of
// one full-batch step and of five.
TEST(SecondOrderRounds, ReachTheOptimumInFarFewerRoundsThanFedavg) {
  const auto after = [](NewtonJob job, int rounds) {
    const auto comm = make_single_communicator();
    NewtonTraining training(*comm, job);
    training.rounds(rounds);
    return gap(training);
  };
  const NewtonJob fednl = job_of("fednl", true), fednew = job_of("fednew", true);
  NewtonJob whole = fednl, fedavg = job_of("sgd", true), local = fedavg;
  whole.client.second_order.rank = 16;
  local.client.epochs = 5;
  EXPECT_LT(after(whole, 8), 1e-5);
  EXPECT_LT(after(fednl, 20), 1e-4);
  EXPECT_LT(after(fednew, 30), 1e-4);
  EXPECT_GT(after(fedavg, 30), 5e-3);
  EXPECT_GT(after(local, 100), 1e-3);  // drift: it never gets there
}

TEST(SecondOrderRounds, SameBitsOnAnyRanksAndAfterAResume) {
  for (const char* kind : {"fednew", "fednl"}) {
    for (const HessianStart start : {HessianStart::kHessian, HessianStart::kZero}) {
      NewtonJob job = job_of(kind, false);
      job.client.second_order.hessian_start = start;
      const Kept straight = train_and_keep<NewtonTraining>(1, job, 7);
      for (const int ranks : {2, 3, 7}) {
        const Kept other = train_and_keep<NewtonTraining>(ranks, job, 7);
        EXPECT_EQ(other.server.arrays(), straight.server.arrays()) << kind << ranks;
        EXPECT_EQ(other.clients, straight.clients) << kind << ranks;
      }
      for (const int stopped : {1, 3}) {
        const Kept kept = train_and_keep<NewtonTraining>(2, job, stopped);
        EXPECT_EQ(go_on<NewtonTraining>(3, job, kept, 7 - stopped),
                  straight.server.get<float>("model"))
            << kind << stopped;
      }
    }
  }
}

// The server keeps and sends FedNew's mean direction; of FedNL's clients only sums are kept.
TEST(SecondOrderRounds, WhatTheServerKeeps) {
  const Kept fednew = train_and_keep<NewtonTraining>(1, job_of("fednew", false), 3);
  EXPECT_EQ(fednew.server.get<float>("control").size(), 3);
  const Kept fednl = train_and_keep<NewtonTraining>(1, job_of("fednl", false), 3);
  EXPECT_FALSE(fednl.server.contains("control"));
  EXPECT_EQ(fednl.server.get<double>("optimizer/hessian").size(), 6);
}

// One client learns its Hessian exactly; of H on the server nothing may get lost on the way.
TEST(FedNlRounds, TheServersHessianIsTheMeanOfTheClients) {
  const NewtonJob job = job_of("fednl", true);
  const Kept kept = train_and_keep<NewtonTraining>(1, job, 10);
  const auto comm = make_single_communicator();
  const NewtonTraining training(*comm, job);
  const auto& h = kept.server.get<double>("optimizer/hessian");
  for (std::size_t i = 0; i < h.size(); ++i) {
    double mean = 0;
    for (const auto& [client, state] : kept.clients) {
      mean += training.shares[static_cast<std::size_t>(client)] * state[i];
    }
    EXPECT_NEAR(h[i], mean, 1e-6);
  }
}

}  // namespace
}  // namespace hanse
