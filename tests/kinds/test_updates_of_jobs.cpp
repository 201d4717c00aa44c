// Updates as a job's options make them.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/updates.hpp"

namespace hanse {
namespace {

// A key that the update does not read changes nothing.
TEST(UpdatesOfJobs, StragglersAreOfThoseThatReadTheKey) {
  const auto families = kind_families();
  KeyedJob job(families);
  std::vector<std::string> readers;
  for (const KindUse& use : job.table.at("client.stragglers").uses) readers.push_back(use.kind);
  ASSERT_EQ(readers, (std::vector<std::string>{"sgd", "prox"}));
  job.client.stragglers = 0.5;
  for (const std::string& kind : job.table.at("client.update").choices) {
    job.client.kind = kind;
    EXPECT_EQ(instructed_clients(job).stragglers, std::ranges::count(readers, kind) > 0 ? 0.5 : 0)
        << kind;
  }
}

}  // namespace
}  // namespace hanse
