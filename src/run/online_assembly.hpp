// The objects of an online job.
#pragma once

#include "hanse/protocol/online.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

struct OnlineAssembly final : Assembly {
  using Assembly::Assembly;
  Protocol& protocol() override { return *online; }

  std::unique_ptr<ExpertRule> experts;
  std::unique_ptr<StreamFit> fit;
  std::unique_ptr<OnlineTrainer> online;
};

}  // namespace hanse
