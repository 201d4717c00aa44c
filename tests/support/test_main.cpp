// main() of a GoogleTest program of one process. HANSE_FAKE_GPU=1 gives it a GPU that pretends,
// before anything asks for LibTorch.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "support/working_folder.hpp"

int main(int argc, char** argv) {
  const char* const pretends = std::getenv("HANSE_FAKE_GPU");
  if (pretends != nullptr && std::string(pretends) == "1" &&
      dlopen("hanse-pretended-gpu.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "HANSE_FAKE_GPU=1: %s\n", dlerror());
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  const hanse::WorkingFolder folder;
  const int failed = RUN_ALL_TESTS();
  return failed == 0 && folder.is_empty() ? 0 : 1;
}
