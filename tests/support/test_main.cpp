// main() of a GoogleTest program of one process. HANSE_FAKE_GPU=1 gives it a GPU that pretends,
// before anything asks for LibTorch.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "model/device/pretended/pretended_gpu.hpp"
#include "support/working_folder.hpp"

int main(int argc, char** argv) {
  const char* const variable = std::getenv("HANSE_FAKE_GPU");
  const bool pretends = variable != nullptr && std::string(variable) == "1";
  if (pretends && dlopen("hanse-pretended-gpu.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "HANSE_FAKE_GPU=1: %s\n", dlerror());
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  const hanse::WorkingFolder folder;
  const int failed = RUN_ALL_TESTS();
  const int64_t refused = pretends ? hanse::pretended::pretended_gpu()->counts().refused : 0;
  if (refused > 0) std::fprintf(stderr, "the GPU that pretends refused %ld calls\n", refused);
  return failed == 0 && folder.is_empty() && refused == 0 ? 0 : 1;
}
