// The devices that tests of device code run on.
#pragma once

#include <string>
#include <vector>

#include "hanse/model/device.hpp"

namespace hanse {

// The CPU, and the first GPU where there is one.
inline std::vector<std::string> test_devices() {
  std::vector<std::string> devices{"cpu"};
  if (gpu_count() > 0) devices.push_back(use_gpu(0));
  return devices;
}

}  // namespace hanse
