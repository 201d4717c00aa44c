// main() of a GoogleTest program of one process.
#include <gtest/gtest.h>

#include "support/working_folder.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const hanse::WorkingFolder folder;
  const int failed = RUN_ALL_TESTS();
  return failed == 0 && folder.is_empty() ? 0 : 1;
}
