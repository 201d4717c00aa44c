#include "hanse/client/options.hpp"

#include <cmath>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

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

AdapterRank AdapterRank::parse(std::string_view text) {
  if (text == "auto") return {kOfFile};
  const int64_t rank = parse_integer(text);
  if (rank >= 0) return {rank};
  throw InvalidArgument("a rank is 0 or above", "", "0: no adapters; auto: those of model.start");
}

std::string AdapterRank::text() const { return value == kOfFile ? "auto" : std::to_string(value); }

double adapter_scale(const PartOptions& options, int64_t rank) {
  const auto r = static_cast<double>(rank);
  const double alpha = options.lora_alpha > 0 ? options.lora_alpha : r;
  return options.lora_scale == LoraScale::kRoot ? alpha / std::sqrt(r) : alpha / r;
}

std::string augmentation_key(const AugmentationOptions& options) {
  if (options.crop > 0) return "client.crop";
  if (options.flip > 0) return "client.flip";
  if (options.cutout > 0) return "client.cutout";
  return options.mixup > 0 ? "client.mixup" : "";
}

}  // namespace hanse
