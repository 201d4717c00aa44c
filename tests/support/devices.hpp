// The devices that tests of device code run on.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

// The CPU, and the first GPU where there is one. HANSE_REQUIRE_GPU = 1 says that there must be.
// HANSE_FAKE_GPU = 1: the one that pretends alone; the CPU has its turn without it.
inline std::vector<std::string> test_devices() {
  const char* const pretends = std::getenv("HANSE_FAKE_GPU");
  if (pretends != nullptr && std::string(pretends) == "1")
    return {torch_library().gpu.use(0, Precision::kFloat32)};
  std::vector<std::string> devices{"cpu"};
  if (!torch_library().gpu.all().empty()) {
    devices.push_back(torch_library().gpu.use(0, Precision::kFloat32));
  } else if (std::getenv("HANSE_REQUIRE_GPU") != nullptr) {
    throw Error("HANSE_REQUIRE_GPU is set, and no GPU is found");
  }
  return devices;
}

}  // namespace hanse
