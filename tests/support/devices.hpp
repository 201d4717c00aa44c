// The devices that tests of device code run on.
#pragma once

#include <string>
#include <vector>

#include "hanse/model/torch_library.hpp"

namespace hanse {

// The CPU, and the first GPU where there is one.
inline std::vector<std::string> test_devices() {
  std::vector<std::string> devices{"cpu"};
  if (!torch_library().gpus().empty()) devices.push_back(torch_library().use_gpu(0));
  return devices;
}

}  // namespace hanse
