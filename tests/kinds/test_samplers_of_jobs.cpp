// Samplers as a job's options make them: what is refused, and what each option does.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/samplers.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Kinds that draw with or without replacement.
std::vector<std::string> drawing_kinds() {
  const auto families = kind_families();
  const KeyedJob job(families);
  std::vector<std::string> kinds;
  for (const KindUse& use : job.table.at("sampler.replacement").uses) kinds.push_back(use.kind);
  return kinds;
}

// The kind's options, with shares for those that need some.
std::unique_ptr<ClientSampler> make(const SamplerOptions& options, int64_t clients) {
  std::vector<double> shares;
  if (sampler_traits(options).by_shares) {
    for (int64_t c = 0; c < clients; ++c) shares.push_back(static_cast<double>(c + 1));
  }
  return make_sampler(options, clients, shares);
}

TEST(SamplersOfJobs, AllTakePartWithoutReplacementWhereThereAreFewer) {
  ASSERT_GE(drawing_kinds().size(), 9U);
  for (const auto& kind : drawing_kinds()) {
    SamplerOptions options{.kind = kind,
                           .per_round = 6,
                           .formula = "1",
                           .learning = {.replacement = false, .horizon = 9}};
    EXPECT_EQ(make(options, 5)->per_round(), 5) << kind;
    EXPECT_EQ(make(options, 6)->per_round(), 6) << kind;
    options.learning.replacement = true;
    EXPECT_EQ(make(options, 5)->per_round(), 6) << kind;
  }
  const SamplerOptions uniform{.kind = "uniform", .per_round = 6};
  EXPECT_EQ(make(uniform, 5)->per_round(), 5);
}

TEST(SamplersOfJobs, BoundSaysWhoIsAsked) {
  const auto asks = [](const std::string& a_max, int64_t clients) {
    const SamplerOptions options{
        .kind = "adaptive-osmd", .a_max = a_max, .learning = {.horizon = 9}};
    return make(options, clients)->needs_all_clients();
  };
  EXPECT_TRUE(asks("auto", 100000));
  EXPECT_FALSE(asks("auto", 100001));
  EXPECT_TRUE(asks("first-round", 100001));
  EXPECT_FALSE(asks("running", 20));
  EXPECT_FALSE(asks("0.5", 20));
  const SamplerOptions fixed{.kind = "osmd", .learning = {.eta = 0.01}};
  EXPECT_FALSE(make(fixed, 20)->needs_all_clients());  // eta is known: no bound is needed
}

TEST(SamplersOfJobs, LipschitzIsForLinearModels) {
  Job job;
  job.data.kind = "random";
  job.data.shape = {4};
  job.data.classes = 2;
  job.federation.clients = 6;
  job.federation.samples = 9;
  job.sampler.kind = "lipschitz";
  job.sampler.per_round = 2;
  const auto comm = make_single_communicator();
  const Federation federation = Federation::load(job.data, job.federation, 1, *comm);
  job.model.kind = "mlp";
  expect_error<InvalidArgument>([&] { make_sampler(job, federation); },
                                {"model.kind", "linear", "hint: "});
  job.model.kind = "linear";
  const auto sampler = make_sampler(job, federation);
  double sum = 0, most = 0;
  for (int64_t client = 0; client < 6; ++client) {
    sum += sampler->probability(client);
    most = std::max(most, sampler->probability(client));
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_GT(most, 1.01 / 6);
}

}  // namespace
}  // namespace hanse
