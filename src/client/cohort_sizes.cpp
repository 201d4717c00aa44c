#include "cohort_sizes.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

std::span<const float> CohortSizes::start(std::span<const ClientTask> tasks, int64_t width) {
  std::ranges::fill(ages_, 0);
  std::ranges::fill(gathered_, 0);
  moments_.clear();
  walks_.clear();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    walks_.emplace_back(movement_, tasks[i].round);
    rounds_[i] = tasks[i].round;
    if (!keeps_) continue;
    const auto own = tasks[i].state.first(to_index(width));
    moments_.insert(moments_.end(), own.begin(), own.end());
    ages_[i] = static_cast<int64_t>(tasks[i].state[to_index(width)]);
  }
  return moments_;
}

StepSize CohortSizes::next(std::size_t place, const Progress& progress, int64_t samples) {
  const auto [done, all, unit] = progress;
  PhaseWalk& walk = walks_[place];
  if (walk.next(unit)) ages_[place] += walk.age_change();
  gathered_[place] += samples;
  if (done + 1 < all && (done + 1) % accumulate_ != 0) return {.scale = 0};
  const double lr =
      schedule_.rate(rounds_[place], done / accumulate_, (all + accumulate_ - 1) / accumulate_);
  const auto gathered = static_cast<double>(std::exchange(gathered_[place], 0));
  StepSize size = stepping_.size(lr, accumulate_ > 1 ? 1 / gathered : 1, ++ages_[place]);
  size.part = static_cast<int64_t>(walk.number());
  return size;
}

void CohortSizes::finish(std::span<const ClientTask> tasks, const Cohort& cohort) {
  if (!keeps_) return;
  cohort.take_moments(moments_);
  const std::size_t width = moments_.size() / tasks.size();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::ranges::copy(std::span(moments_).subspan(i * width, width), tasks[i].state.begin());
    tasks[i].state[width] = static_cast<float>(ages_[i]);
  }
}

}  // namespace hanse
