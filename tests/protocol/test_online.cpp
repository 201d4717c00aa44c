#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/experts/experts.hpp"
#include "protocol/small_online.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kRounds = 9;  // the whole stream

using Row = std::vector<double>;

// Fed-Exp as the paper's listing has it, a loop a line, mixtures in float64.
class Literal {
 public:
  Literal(const OnlineCase& c, Communicator& comm) : c_(c), run_(c, comm) {}

  std::vector<Row> rows(int64_t rounds) {
    const auto n = static_cast<std::size_t>(c_.nodes);
    Stream stream(run_.federation, c_.settings.stream, c_.settings.seed);
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<float> row(static_cast<std::size_t>(run_.model->n_params()));
      RandomStream start(c_.settings.seed, Purpose::kInitialize, 0, i);
      run_.model->initialize(row, start);
      theta_.emplace_back(row.begin(), row.end());
    }
    gamma_ = theta_;
    sums_.assign(n, Row(n, 0.0));
    mixes_.assign(n, true);
    p_.assign(n, Row(n, 1 / static_cast<double>(n)));
    for (int64_t t = 1; t <= rounds; ++t) {
      std::vector<StreamBatch> batches(n);
      for (std::size_t i = 0; i < n; ++i) stream.train(static_cast<int64_t>(i), t, batches[i]);
      if (!c_.settings.train_first) predict(batches);
      train(batches, t);
      mix(t);
      if (c_.settings.train_first) predict(batches);
    }
    return theta_;
  }

 private:
  static std::vector<float> floats(const Row& row) { return {row.begin(), row.end()}; }

  void train(const std::vector<StreamBatch>& batches, int64_t t) {
    for (std::size_t i = 0; i < theta_.size(); ++i) {
      auto row = floats(theta_[i]);
      RandomStream noise(c_.settings.seed, Purpose::kDropout, static_cast<uint64_t>(t), i);
      run_.fit->fit(static_cast<int64_t>(i), batches[i].view(), noise, row);
      gamma_[i].assign(row.begin(), row.end());
    }
  }

  void mix(int64_t t) {
    const auto n = theta_.size();
    RandomStream random(c_.settings.seed, Purpose::kSampling, static_cast<uint64_t>(t));
    const auto peers =
        sample_peers(c_.nodes, c_.settings.peers == 0 ? c_.nodes : c_.settings.peers, random);
    auto gamma = gamma_;  // in place, with the mixtures of the nodes before
    for (std::size_t i = 0; i < n; ++i) {
      Row mixed(theta_[i].size(), 0.0);
      double sum = 0;
      p_[i].assign(n, 0.0);
      for (const int64_t peer : peers) {
        const auto j = static_cast<std::size_t>(peer);
        sum += p_[i][j] = std::exp(-c_.eta * sums_[i][j]);
      }
      for (std::size_t j = 0; j < n; ++j) {
        p_[i][j] /= sum;
        for (std::size_t k = 0; k < mixed.size(); ++k) mixed[k] += p_[i][j] * gamma[j][k];
      }
      theta_[i] = mixes_[i] ? mixed : gamma_[i];
      if (c_.settings.in_place) gamma[i] = theta_[i];
    }
  }

  void predict(const std::vector<StreamBatch>& batches) {
    const auto n = theta_.size();
    for (std::size_t i = 0; i < n; ++i) {
      const Batch batch = batches[i].view();
      double gap = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const auto row = floats(c_.settings.score_estimates ? gamma_[j] : theta_[j]);
        const double loss = run_.model->evaluate(row, batch).loss / static_cast<double>(batch.rows);
        sums_[i][j] += std::min(1.0, loss / c_.settings.loss_scale);
        std::vector<float> gradient(row.size());
        RandomStream noise(0, Purpose::kDropout);
        run_.model->loss_and_gradient(floats(gamma_[j]), batch, noise, gradient);
        for (std::size_t k = 0; k < gradient.size(); ++k) {
          gap += p_[i][j] * (theta_[j][k] - gamma_[j][k]) * static_cast<double>(gradient[k]);
        }
      }
      const double root = std::sqrt(static_cast<double>(c_.settings.stream.horizon));
      mixes_[i] = c_.settings.c == 0 || std::abs(gap) <= c_.settings.c / root;
      (mixes_[i] ? mixed_ : refused_) += 1;
    }
  }

  OnlineCase c_;
  OnlineRun run_;
  std::vector<Row> theta_, gamma_, sums_, p_;
  std::vector<bool> mixes_;

 public:
  int64_t mixed_ = 0, refused_ = 0;  // decisions of the test
};

TEST(Online, FedExpFollowsThePapersListing) {
  for (const OnlineCase& c : online_cases()) {
    if (c.rule != "fed-exp" || c.model == "cnn-cifar") continue;
    const auto comm = make_single_communicator();
    Literal literal(c, *comm);
    const auto expected = literal.rows(kRounds);
    const auto found = run_on_threads(1, c, kRounds).rows;
    const std::size_t width = expected.front().size();
    for (std::size_t k = 0; k < found.size(); ++k) {
      ASSERT_NEAR(found[k], expected[k / width][k % width], 2e-4) << c.name << ", entry " << k;
    }
    if (c.settings.c > 0) {  // the test says yes and no
      EXPECT_GT(literal.mixed_, 5) << c.name;
      EXPECT_GT(literal.refused_, 5) << c.name;
    }
  }
}

// Omni-Fedge in float64, a loop a line: weights by losses, a step of all layers but the last, then
// one of the last by gradients taken anew.
std::vector<Row> literal_omni_fedge(const OnlineCase& c, Communicator& comm) {
  OnlineRun run(c, comm);
  const auto n = static_cast<std::size_t>(c.nodes);
  const auto width = static_cast<std::size_t>(run.model->n_params());
  Stream stream(run.federation, c.settings.stream, c.settings.seed);
  std::vector<Row> theta, omega(n, Row(n, 1 / static_cast<double>(n)));
  std::size_t last = 0;  // where the last layer begins: "fc2.weight", or all of a single layer
  for (const auto& slot : run.model->layout().slots()) {
    if (slot.name.ends_with("weight")) last = static_cast<std::size_t>(slot.offset);
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<float> row(width);
    RandomStream start(c.settings.seed, Purpose::kInitialize, 0, i);
    run.model->initialize(row, start);
    theta.emplace_back(row.begin(), row.end());
  }
  for (int64_t t = 1; t <= kRounds; ++t) {
    std::vector<StreamBatch> batches(n);
    for (std::size_t i = 0; i < n; ++i) stream.train(static_cast<int64_t>(i), t, batches[i]);
    for (std::size_t i = 0; i < n; ++i) {
      Row losses;
      for (std::size_t j = 0; j < n; ++j) {
        const std::vector<float> row(theta[j].begin(), theta[j].end());
        losses.push_back(run.model->evaluate(row, batches[i].view()).loss /
                         static_cast<double>(batches[i].rows));
      }
      omega[i] = best_shares(losses, 0.5, omega[i]);
    }
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, last}, {last, width}}) {
      auto next = theta;
      for (std::size_t l = 0; l < n; ++l) {
        for (std::size_t i = 0; i < n; ++i) {
          std::vector<float> gradient(width);
          RandomStream noise(0, Purpose::kDropout);
          run.model->loss_and_gradient(std::vector<float>(theta[l].begin(), theta[l].end()),
                                       batches[i].view(), noise, gradient);
          for (std::size_t k = begin; k < end; ++k) {
            next[l][k] -= c.settings.lr * omega[l][i] * static_cast<double>(gradient[k]);
          }
        }
      }
      theta = next;
    }
  }
  return theta;
}

TEST(Online, OmniFedgeMovesByWeighedGradients) {
  int found = 0;
  for (const OnlineCase& c : online_cases()) {
    if (c.rule != "omni-fedge") continue;
    ++found;
    const auto comm = make_single_communicator();
    const auto expected = literal_omni_fedge(c, *comm);
    const auto rows = run_on_threads(2, c, kRounds).rows;
    const std::size_t width = expected.front().size();
    for (std::size_t k = 0; k < rows.size(); ++k) {
      ASSERT_NEAR(rows[k], expected[k / width][k % width], 2e-5) << c.name << ", entry " << k;
    }
  }
  EXPECT_EQ(found, 2);
}

TEST(Online, LocalNodesNeverHearOfEachOther) {
  OnlineCase c;
  c.rule = "local";
  const auto comm = make_single_communicator();
  OnlineRun run(c, *comm);
  const auto rows = run_on_threads(1, c, kRounds).rows;
  Stream stream(run.federation, c.settings.stream, c.settings.seed);
  const auto width = static_cast<std::size_t>(run.model->n_params());
  for (std::size_t i = 0; i < 7; ++i) {
    std::vector<float> row(width);
    RandomStream start(c.settings.seed, Purpose::kInitialize, 0, i);
    run.model->initialize(row, start);
    StreamBatch batch;
    for (int64_t t = 1; t <= kRounds; ++t) {
      stream.train(static_cast<int64_t>(i), t, batch);
      RandomStream noise(0, Purpose::kDropout);
      run.fit->fit(static_cast<int64_t>(i), batch.view(), noise, row);
    }
    EXPECT_TRUE(std::equal(row.begin(), row.end(), rows.begin() + static_cast<long>(i * width)));
  }
}

TEST(Online, FedSgdIsOneStepAlongTheMeanGradient) {
  OnlineCase c;
  c.rule = "mean";
  c.steps = 1;
  const auto comm = make_single_communicator();
  OnlineRun run(c, *comm);
  OnlineTrainer& trainer = *run.trainer;
  trainer.initialize_model();
  const auto width = static_cast<std::size_t>(run.model->n_params());
  const std::vector<float> theta(trainer.model_row().begin(),
                                 trainer.model_row().begin() + static_cast<long>(width));
  trainer.round(false);
  Stream stream(run.federation, c.settings.stream, c.settings.seed);
  Row expected(theta.begin(), theta.end());
  for (int64_t node = 0; node < 7; ++node) {
    StreamBatch batch;
    stream.train(node, 1, batch);
    std::vector<float> gradient(width);
    RandomStream noise(0, Purpose::kDropout);
    run.model->loss_and_gradient(theta, batch.view(), noise, gradient);
    for (std::size_t k = 0; k < width; ++k) expected[k] -= 0.5 / 7 * gradient[k];
  }
  for (std::size_t k = 0; k < 7 * width; ++k) {
    EXPECT_NEAR(trainer.model_row()[k], expected[k % width], 1e-6);
    EXPECT_EQ(trainer.model_row()[k], trainer.model_row()[k % width]);  // one model for all
  }
}

// The losses of all rounds, evaluations and the models, on a device as on the host.
TEST(Online, NodesSideBySideEqualNodesOneByOne) {
  int found = 0;
  for (const std::string& device : test_devices()) {
    for (OnlineCase c : online_cases()) {
      if (c.cohort == 0) continue;
      ++found;
      c.device = device;
      const auto together = run_on_threads(2, c, kRounds);
      c.cohort = 0;
      const auto apart = run_on_threads(1, c, kRounds);
      ASSERT_EQ(together.rows.size(), apart.rows.size());
      for (std::size_t i = 0; i < apart.rows.size(); ++i) {
        ASSERT_NEAR(together.rows[i], apart.rows[i], 5e-5) << c.name << " on " << device;
      }
      ASSERT_EQ(together.numbers.size(), apart.numbers.size());
      for (std::size_t i = 0; i < apart.numbers.size(); ++i) {
        if (!std::isfinite(apart.numbers[i])) continue;
        EXPECT_NEAR(together.numbers[i], apart.numbers[i], 1e-4 * (1 + std::abs(apart.numbers[i])))
            << c.name << " on " << device;
      }
    }
  }
  EXPECT_GE(found, 15);
}

TEST(Online, SameBitsOnAnyNumberOfRanks) {
  for (const OnlineCase& c : online_cases()) {
    const auto alone = run_on_threads(1, c, kRounds);
    for (const int ranks : {2, 3, 4}) {
      EXPECT_TRUE(run_on_threads(ranks, c, kRounds) == alone) << c.name << ", ranks " << ranks;
    }
  }
}

TEST(Online, GoesOnInMidStreamOnOtherRanks) {
  for (const OnlineCase& c : online_cases()) {
    const auto straight = run_on_threads(1, c, kRounds);
    OnlineOutcome parts;
    State state;
    run_threads(3, [&](Communicator& comm) {
      OnlineRun run(c, comm);
      run.trainer->initialize_model();
      OnlineOutcome mine;
      run_rounds(run, 4, comm, mine);
      if (comm.rank() != 0) return;
      run.trainer->save(state);
      parts = mine;
    });
    run_threads(2, [&](Communicator& comm) {
      OnlineRun run(c, comm);
      run.trainer->resume(comm.rank() == 0 ? state : State());
      EXPECT_EQ(run.trainer->completed_rounds(), 4);
      OnlineOutcome mine;
      if (comm.rank() == 0) mine = parts;
      run_rounds(run, kRounds, comm, mine);
      if (comm.rank() == 0) parts = mine;
    });
    EXPECT_TRUE(parts == straight) << c.name;
  }
}

// Node by node: rows, losses, and reports to rank 0.
TEST(Online, BytesOfARound) {
  constexpr int64_t kNodes = 7;
  for (const std::string rule : {"fed-exp", "mean", "local"}) {
    OnlineCase c;
    c.rule = rule;
    run_threads(3, [&](Communicator& comm) {
      OnlineRun run(c, comm);
      run.trainer->initialize_model();
      run.trainer->round(false);
      const int64_t bytes = run.trainer->round(false).bytes_sent;
      if (comm.rank() != 0) return;
      const int64_t rows = rule == "local" ? 0 : 2 * 4 * kNodes * run.model->n_params();
      const int64_t losses = rule == "fed-exp" ? 2 * 8 * kNodes * (kNodes + 3) : 0;
      const int64_t reports = 5 * 24 + 2 * 48;  // rank 0 has two nodes
      EXPECT_EQ(bytes, rows + losses + reports) << rule;
    });
  }
}

TEST(Online, ALossOutsideTheUnitIntervalIsToldByAllRanks) {
  for (const bool train_first : {true, false}) {
    OnlineCase c;
    c.settings.loss_scale = 0;
    c.settings.train_first = train_first;
    run_threads(2, [&](Communicator& comm) {
      OnlineRun run(c, comm);
      run.trainer->initialize_model();
      const RoundRecord record = run.trainer->round(false);
      EXPECT_EQ(record.failed, comm.rank() == 0);
      ASSERT_TRUE(run.trainer->failure());
      expect_error<TrainingError>([&] { std::rethrow_exception(run.trainer->failure()); },
                                  {"outside [0, 1]", "online.loss-scale", "round 1", "model"});
    });
  }
}

// A node's own steps of a first round diverge, or the steps of all, which Omni-Fedge sends.
TEST(Online, AModelThatDivergedIsToldByAllRanks) {
  const auto expect_told = [](const OnlineCase& c, int64_t failing, const std::string& what) {
    run_threads(2, [&](Communicator& comm) {
      OnlineRun run(c, comm);
      run.trainer->initialize_model();
      for (int64_t round = 1; round < failing; ++round) {
        EXPECT_FALSE(run.trainer->round(false).failed);
        EXPECT_FALSE(run.trainer->failure());
      }
      run.trainer->round(false);
      ASSERT_TRUE(run.trainer->failure());
      expect_error<TrainingError>(
          [&] { std::rethrow_exception(run.trainer->failure()); },
          {what, "round " + std::to_string(failing), "a smaller online.lr"});
    });
  };
  OnlineCase own;
  own.rule = "local";
  own.lr = 1e300;
  expect_told(own, 1, "a node's model has a loss of nan");
  OnlineCase sent;
  sent.rule = "omni-fedge";
  sent.settings.lr = 1e300;
  expect_told(sent, 2, "a loss of nan cannot be weighed");
}

TEST(Online, AStopOfAnyRankIsReported) {
  run_threads(3, [&](Communicator& comm) {
    OnlineRun run({}, comm);
    run.trainer->initialize_model();
    EXPECT_FALSE(run.trainer->round(false).stop_requested);
    const RoundRecord record = run.trainer->round(comm.rank() == 2);
    EXPECT_EQ(record.stop_requested, comm.rank() == 0);
  });
}

TEST(Online, RefusesWhatDoesNotFit) {
  const auto comm = make_single_communicator();
  OnlineCase c;
  c.settings.peers = 8;
  expect_error<InvalidArgument>([&] { OnlineRun(c, *comm); },
                                {"8 peers", "7 nodes", "online.peers"});
  c.settings.peers = 7;
  EXPECT_NO_THROW(OnlineRun(c, *comm));
  c.settings.stream.horizon = 1000;
  expect_error<InvalidArgument>([&] { OnlineRun(c, *comm); },
                                {"too few for 1000 batches", "online.horizon"});
}

}  // namespace
}  // namespace hanse
