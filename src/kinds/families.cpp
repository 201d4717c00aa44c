#include "families.hpp"

#include "hanse/kinds/families.hpp"

namespace hanse {

std::vector<KindFamily> kind_families() {
  return {sampler_family(),   aggregator_family(), update_family(),
          optimizer_family(), model_family(),      data_family(),
          partition_family(), expert_family(),     bandit_family()};
}

}  // namespace hanse
