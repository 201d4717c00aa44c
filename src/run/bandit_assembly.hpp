// The objects of a bandit's job.
#pragma once

#include "hanse/protocol/bandit.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

struct BanditAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *bandit; }

  std::unique_ptr<BanditProtocol> bandit;
};

}  // namespace hanse
