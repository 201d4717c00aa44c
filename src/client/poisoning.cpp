#include "poisoning.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

PatchedImage patched_image(const PoisonOptions& options, const Federation& federation) {
  if (options.kind != Poison::kBackdoor) return {};
  const auto& shape = federation.sample_shape();
  if (shape.size() != 3) {
    throw InvalidArgument(
        fmt::format("samples of shape {{{}}} are no images", fmt::join(shape, ", ")), "attack.kind",
        "a backdoor needs images {channels, height, width}");
  }
  if (options.patch > std::min(shape[1], shape[2])) {
    throw InvalidArgument(fmt::format("a patch of {} is larger than images of {} x {}",
                                      options.patch, shape[1], shape[2]),
                          "attack.patch", "use a smaller one");
  }
  return {shape[0], shape[1], shape[2], options.patch};
}

void check_poison_classes(const PoisonOptions& options, const LabelForm& labels) {
  if (options.kind == Poison::kNone) return;
  if (labels.classes == 0 || labels.values != 1 || labels.multi_label) {
    throw InvalidArgument("the attack changes labels, and these data have not one class a sample",
                          "attack.kind", "an attack on updates");
  }
  const auto check = [&](int64_t label, const char* key) {
    if (label < labels.classes) return;
    throw InvalidArgument(fmt::format("there is no class {} of {}", label, labels.classes), key,
                          "classes count from 0");
  };
  check(options.target, "attack.target");
  if (options.kind == Poison::kFlip) check(options.source, "attack.source");
}

Poisoning::Poisoning(const PoisonOptions& options, const Federation& federation)
    : options_(options), classes_(federation.classes()) {
  if (options.kind == Poison::kNone) return;
  check_poison_classes(options, federation.label_form());
  image_ = patched_image(options, federation);
}

void Poisoning::start(const ClientTask& task) {
  is_on_ = options_.kind != Poison::kNone && task.round >= options_.first_round &&
           task.round <= options_.last_round &&
           std::ranges::binary_search(options_.clients, task.client);
}

void Poisoning::apply(GatheredBatch& batch) const {
  if (!is_on_) return;
  int64_t poisoned = batch.rows;
  if (options_.kind == Poison::kBackdoor) {
    poisoned = static_cast<int64_t>(std::ceil(options_.share * static_cast<double>(batch.rows)));
  }
  const int64_t values = std::ssize(batch.features) / std::max<int64_t>(batch.rows, 1);
  for (int64_t i = 0; i < poisoned; ++i) {
    int32_t& label = batch.labels[to_index(i)];
    label = static_cast<int32_t>(wanted_class(options_, label, classes_));
    image_.mark(batch.features.data() + i * values);
  }
  if (options_.kind == Poison::kBackdoor) batch.forget_places();
}

}  // namespace hanse
