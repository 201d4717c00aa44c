// The names of federation.partition.
#pragma once

#include <string>
#include <vector>

namespace hanse {

struct PartitionKindInfo {
  std::string name;
  std::string summary;  // one line
};

// Those that partition_samples() knows.
std::vector<PartitionKindInfo> partition_kinds();

}  // namespace hanse
