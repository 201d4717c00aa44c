#include "hanse/client/options.hpp"

namespace hanse {

std::string own_loss_key(const LossOptions& options) {
  if (!options.objective.empty()) return "client.objective";
  if (options.label_smoothing > 0) return "client.label-smoothing";
  return options.class_weights != "none" ? "client.class-weights" : "";
}

StepOptions inner_steps(const ClientOptions& options) {
  StepOptions inner = options;
  if (options.inner_lr > 0) inner.lr = options.inner_lr;
  return inner;
}

double propfair_slope(const PropfairOptions& options, double loss) {
  if (options.base <= 0) return 1;
  const double room = options.base - loss;  // M - F
  if (room >= PropfairOptions::kLeastRoom) return 1 / room;
  return 1 / (options.reference ? options.base : PropfairOptions::kLeastRoom);
}

std::string augmentation_key(const AugmentationOptions& options) {
  if (options.crop > 0) return "client.crop";
  if (options.flip > 0) return "client.flip";
  if (options.cutout > 0) return "client.cutout";
  return options.mixup > 0 ? "client.mixup" : "";
}

}  // namespace hanse
