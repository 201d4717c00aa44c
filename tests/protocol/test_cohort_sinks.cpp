// Rounds whose participants are trained side by side and whose updates go to the host's sum: rules,
// attackers, stages and parts that look at them there.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/index.hpp"
#include "model/device/pretended/pretended_gpu.hpp"
#include "protocol/cohort_kinds.hpp"

namespace hanse {
namespace {

class CohortSinks : public testing::Test {
 protected:
  static void SetUpTestSuite() { torch_library().set_threads(1); }
};

using NamedJobs = std::vector<std::pair<std::string, KindsJob>>;

KindsJob of_rule(const std::string& kind) {
  KindsJob job{plain_steps()};
  job.job.aggregator.kind = kind;
  job.job.aggregator.byzantine.number = 2;
  job.job.aggregator.radius = 0.3;
  return job;
}

KindsJob attacked(KindsJob job, const std::string& kind) {
  job.job.attack.kind = kind;
  job.job.attack.clients.number = 2;
  return job;
}

// Each kind of kept row: by products, by columns, with the last step, with a state of each client.
NamedJobs robust_jobs() {
  KindsJob mixed = of_rule("median");
  mixed.job.aggregator.before = PreRules::parse("nnm");
  KindsJob heal = of_rule("fedheal");
  heal.job.aggregator.threshold = 0.3;
  heal.job.aggregator.beta = 0.4;
  KindsJob absent = of_rule("fedlf");
  absent.job.aggregator.absent = AbsentClients::kWindow;
  KindsJob many = of_rule("geometric-median");
  many.job.aggregator.before = PreRules::parse("nnm");
  return {{"krum", of_rule("krum")},
          {"multi-krum", of_rule("multi-krum")},
          {"geometric median behind nnm", many},
          {"median behind nnm", mixed},
          {"trimmed mean", of_rule("trimmed-mean")},
          {"centered clipping", of_rule("centered-clipping")},
          {"fltrust", of_rule("fltrust")},
          {"fedheal", heal},
          {"fedlf of absent clients", absent}};
}

NamedJobs attack_jobs() {
  KindsJob idle = attacked(of_rule("krum"), "sign-flip");
  idle.job.attack.idle = true;
  idle.job.attack.clients.number = static_cast<double>(kJobIdle);
  return {{"alie on krum", attacked(of_rule("krum"), "alie")},
          {"optimal ipm on geometric median", attacked(of_rule("geometric-median"), "optimal-ipm")},
          {"optimal alie on trimmed mean", attacked(of_rule("trimmed-mean"), "optimal-alie")},
          {"gauss on the mean", attacked(of_rule("fedavg"), "gauss")},
          {"replaced", attacked(of_rule("fedavg"), "replace")},
          {"attackers without samples", idle},
          {"no numbers", attacked(of_rule("median"), "nan")}};
}

KindsJob compressed(Compress kind) {
  KindsJob job{plain_steps()};
  job.job.compression.compress = kind;
  job.job.compression.keep = 0.2;
  return job;
}

NamedJobs stage_jobs() {
  KindsJob momentum = of_rule("krum");
  momentum.job.client.worker_momentum = 0.6;
  KindsJob both = compressed(Compress::kTopK);
  both.job.client.worker_momentum = 0.5;
  both.job.client.kind = "scaffold";
  KindsJob measured = compressed(Compress::kTopK);
  measured.measures_all = true;
  KindsJob adaptive = compressed(Compress::kRandomK);
  adaptive.job.server = {.optimizer = "adam", .lr = 0.01};
  KindsJob directions = compressed(Compress::kTopK);
  directions.job.aggregator.kind = "dqn-fed";
  directions.job.aggregator.radius = 0.3;
  directions.job.client.lr = 0.05;
  directions.job.client.epochs = 0;
  directions.job.client.steps = 3;
  directions.job.client.pairs = 2;
  directions.job.client.rate = LoweringRate::kLbfgs;
  return {{"worker momentum", momentum},
          {"momentum, scaffold and top-k", both},
          {"top-k, measured first", measured},
          {"random-k with adam", adaptive},
          {"top-k of directions", directions}};
}

KindsJob private_rounds(const std::string& kind, double noise, double clip) {
  KindsJob job{plain_steps()};
  job.job.aggregator.weights = ClientWeights::kUniform;
  job.job.aggregator.estimator = Estimator::kUnbiased;
  job.job.privacy.kind = kind;
  job.job.privacy.noise = noise;
  job.job.privacy.clip = clip;
  return job;
}

NamedJobs part_jobs() {
  KindsJob masked{plain_steps()};
  masked.job.comm.masks = AskedMasks::kTrue;
  masked.job.server = {.optimizer = "momentum", .lr = 0.5};
  KindsJob both = private_rounds("central", 0.1, 0.5);
  both.job.comm.masks = AskedMasks::kTrue;
  return {{"masks", masked},
          {"central noise", private_rounds("central", 0.1, 0.5)},
          {"distributed noise", private_rounds("distributed", 0.1, 0.5)},
          {"noise under masks", both}};
}

TEST_F(CohortSinks, RobustRules) {
  for (const auto& [name, job] : robust_jobs()) expect_agreement(name, job);
}
TEST_F(CohortSinks, Attackers) {
  for (const auto& [name, job] : attack_jobs()) expect_agreement(name, job);
}
TEST_F(CohortSinks, Stages) {
  for (const auto& [name, job] : stage_jobs()) expect_agreement(name, job);
}
TEST_F(CohortSinks, Parts) {
  for (const auto& [name, job] : part_jobs()) expect_agreement(name, job);
}

// Updates that count nothing leave the noise alone, which is the CPU's to the last bit.
TEST_F(CohortSinks, NoiseHasTheBitsOfTheHosts) {
  for (const char* kind : {"central", "distributed"}) {
    for (const std::string& device : test_devices()) {
      KindsJob job = private_rounds(kind, 0.7, 1);
      job.device = device;
      job.job.client.lr = 1e-30;
      const Outcome got = outcome_of(2, job);
      job.cohort = 0;
      const Outcome expected = outcome_of(1, job);
      EXPECT_EQ(got.row, expected.row) << kind << " on " << device;
      job.rounds = 1;
      EXPECT_NE(got.row, outcome_of(1, job).row);
    }
  }
}

TEST_F(CohortSinks, AttackersHaveTheStrengthsOfTheHosts) {
  KindsJob job = attacked(of_rule("krum"), "optimal-ipm");
  job.device = test_devices().front();
  const Outcome got = outcome_of(2, job);
  job.cohort = 0;
  const Outcome expected = outcome_of(1, job);
  ASSERT_EQ(got.measures.size(), 4 * to_index(job.rounds));
  for (std::size_t i = 0; i < got.measures.size(); ++i) {
    const double value = expected.measures[i];
    EXPECT_TRUE(std::abs(got.measures[i] - value) <= 1e-3 * (1 + std::abs(value)) ||
                (std::isnan(got.measures[i]) && std::isnan(value)))
        << got.measures[i] << " " << value;
  }
}

// What a counter tells of the second round, on one rank.
int64_t in_second_round(const KindsJob& job, const std::function<int64_t()>& counter) {
  int64_t found = 0;
  run_threads(1, [&](Communicator& comm) {
    KindsRun run(comm, job);
    run.trainer->round(false);
    const int64_t before = counter();
    run.trainer->round(false);
    found = counter() - before;
  });
  return found;
}

// Rows of rules by columns come in one transfer, and their losses in another.
TEST_F(CohortSinks, TheHostWaitsTwiceForACohort) {
  const auto downloads = [] { return torch_library().downloads(); };
  for (const std::string& device : test_devices()) {
    KindsJob job = of_rule("median");
    job.device = device;
    for (const int64_t cohort : {1, 3, 7}) {
      job.cohort = cohort;
      const int64_t cohorts = (kJobDraws + cohort - 1) / cohort;
      EXPECT_EQ(in_second_round(job, downloads), 2 * cohorts) << cohort;
    }
  }
}

// Rules that weigh by inner products get these; no update leaves the device.
TEST_F(CohortSinks, UpdatesStayWhereInnerProductsAreEnough) {
  if (pretended::pretended_gpu() == nullptr) GTEST_SKIP() << "HANSE_FAKE_GPU=1 runs it";
  const auto bytes = [] { return pretended::pretended_gpu()->counts().downloaded_bytes; };
  KindsJob job = of_rule("median");
  job.device = test_devices().front();
  job.cohort = 7;
  const int64_t of_rows = in_second_round(job, bytes);
  job.job.aggregator.kind = "krum";
  EXPECT_LT(in_second_round(job, bytes), of_rows / 4);
}

}  // namespace
}  // namespace hanse
