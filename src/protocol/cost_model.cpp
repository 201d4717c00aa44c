#include "hanse/protocol/cost_model.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr float kUnknown = -1;

// REQUIRES: values.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double CostModel::known_seconds(int64_t client) const {
  return client < std::ssize(seconds_of_) ? static_cast<double>(seconds_of_[to_index(client)])
                                          : kUnknown;
}

double CostModel::predict(int64_t client, double units) const {
  if (const double known = known_seconds(client); known >= 0) return known;
  if (!has_measured()) return units;
  const double spread = measured_ * squared_units_ - units_ * units_;
  const double slope = (measured_ * units_seconds_ - units_ * seconds_) / spread;
  const double fixed = (seconds_ - slope * units_) / measured_;
  const bool is_line = spread > 1e-9 * units_ * units_ && slope >= 0 && fixed >= 0;
  return is_line ? fixed + slope * units : units * seconds_ / units_;
}

std::vector<double> CostModel::slowness() const {
  if (slowness_.empty()) return {};
  constexpr double kStep = 1.25;
  const double middle = median(slowness_);
  std::vector<double> stepped;
  for (const double slowness : slowness_) {
    stepped.push_back(middle *
                      std::pow(kStep, std::round(std::log(slowness / middle) / std::log(kStep))));
  }
  return stepped;
}

void CostModel::observe(std::span<const Measurement> round) {
  observe_workers(round);
  for (const Measurement& one : round) {
    const double slowness = slowness_.empty() ? 1 : slowness_[to_index(one.worker)];
    const double seconds = one.seconds / slowness;
    if (one.client >= std::ssize(seconds_of_)) {
      seconds_of_.resize(to_index(one.client) + 1, kUnknown);
    }
    seconds_of_[to_index(one.client)] = static_cast<float>(seconds);
    measured_ += 1;
    units_ += one.units;
    seconds_ += seconds;
    squared_units_ += one.units * one.units;
    units_seconds_ += one.units * seconds;
  }
}

void CostModel::observe_workers(std::span<const Measurement> round) {
  constexpr double kShare = 0.5;   // of a surprise
  constexpr double kMost = 2;      // by which a slowness changes in a round
  constexpr double kForget = 0.1;  // of the way to the middle, for a worker that trains nobody
  if (slowness_.empty()) return;
  double scale = 1;
  if (!has_measured()) {  // predict() gives units
    const auto sum = [&](double Measurement::*field) {
      double total = 0;
      for (const Measurement& one : round) total += one.*field;
      return total;
    };
    scale = sum(&Measurement::seconds) / sum(&Measurement::units);
  }
  std::vector<double> surprise(slowness_.size());  // sum of logarithms
  std::vector<double> trained(slowness_.size());
  for (const Measurement& one : round) {
    const auto w = to_index(one.worker);
    const double predicted = scale * predict(one.client, one.units) * slowness_[w];
    if (predicted <= 0 || one.seconds <= 0) continue;
    surprise[w] += std::log(one.seconds / predicted);
    ++trained[w];
  }
  const double middle = median(slowness_);
  for (std::size_t w = 0; w < slowness_.size(); ++w) {
    const double change = trained[w] > 0 ? std::exp(kShare * surprise[w] / trained[w])
                                         : std::pow(middle / slowness_[w], kForget);
    slowness_[w] *= std::clamp(change, 1 / kMost, kMost);
  }
}

}  // namespace hanse
