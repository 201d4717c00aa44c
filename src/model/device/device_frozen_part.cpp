// The frozen part of a network on a device.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "device/device.hpp"
#include "hanse/base/error.hpp"
#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

std::shared_ptr<FrozenPart> make_device_frozen_part(const FrozenPart& host, const PartModel& part,
                                                    const ModelOptions& options,
                                                    const std::vector<int64_t>& sample_shape,
                                                    const LabelForm& labels,
                                                    const std::string& device) {
  const ModelCase c{options, sample_shape, make_loss(options.loss, labels)};
  try {
    const std::shared_ptr<CohortForward> network =
        make_part_cohort(make_cohort_forward(c, device), part, device);
    FrozenPart* const found = network->cut_as(host, {});
    if (found == nullptr) return nullptr;
    return {network, found};
  } catch (const c10::OutOfMemoryError&) {
    throw InvalidArgument(fmt::format("{} has no room for what is frozen", device), "run.device",
                          "run.device = cpu");
  }
}

}  // namespace hanse
