// main() of a GoogleTest program on every rank: rank 0 prints all, the others their failures, and
// the program fails on every rank when a test failed, or left a file, on any.
#include <cstdio>
#include <memory>

#include <gtest/gtest.h>

#include "hanse/comm/mpi_environment.hpp"
#include "support/mpi_world.hpp"
#include "support/working_folder.hpp"

namespace hanse {

namespace {

std::unique_ptr<Communicator> world;

class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d: %s:%d: %s\n", world->rank(), result.file_name(), result.line_number(),
                result.message());
    std::fflush(stdout);
  }
};

void keep_quiet() {
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailurePrinter);
}

}  // namespace

Communicator& mpi_world() { return *world; }

}  // namespace hanse

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const hanse::MpiEnvironment mpi;
  hanse::world = hanse::make_mpi_communicator();
  if (hanse::world->rank() != 0) hanse::keep_quiet();
  const hanse::WorkingFolder folder;
  const int64_t failed = RUN_ALL_TESTS() != 0 || !folder.is_empty() ? 1 : 0;
  const int64_t anywhere = hanse::world->allreduce_one(failed, hanse::ReduceOp::kMax);
  hanse::world.reset();
  return anywhere == 0 ? 0 : 1;
}
