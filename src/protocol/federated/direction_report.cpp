#include "federated/direction_report.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

std::vector<std::string> DirectionReport::columns() {
  return {"squared_norm", "ridge", "scale", "dropped", "conflicts", "angle_max"};
}

void DirectionReport::skip() { values_.assign(kValues, std::numeric_limits<double>::quiet_NaN()); }

void DirectionReport::add(int64_t round, std::span<const int64_t> clients,
                          std::span<const double> gram, std::span<const double> rates,
                          const Mix& mix) {
  const std::size_t k = clients.size();
  const StepView view = view_step(gram, mix.coefficients, static_cast<int64_t>(k));
  const Direction& direction = mix.direction;
  skip();
  values_[kSquaredNorm] = view.squared_norm;
  values_[kRidge] = direction.ridge;
  values_[kScale] = direction.scale;
  values_[kDropped] = static_cast<double>(direction.dropped);
  values_[kConflicts] = static_cast<double>(view.conflicts);
  for (const double angle : view.angles) {
    values_[kAngleMax] = std::fmax(values_[kAngleMax], angle);  // fmax passes NaN over
  }
  if (static_cast<int64_t>(k) > kMostClients) return;
  const bool layered = mix.coefficients.size() > k;
  for (std::size_t i = 0; i < k; ++i) {
    const double unweighted = std::numeric_limits<double>::quiet_NaN();  // one weight a layer
    lines_ += fmt::format("{},{},{},{},{}\n", round, clients[i],
                          number_or_nothing(layered ? unweighted : mix.coefficients[i]),
                          rates.empty() ? "" : number_or_nothing(rates[i]),
                          number_or_nothing(view.angles[i]));
  }
}

std::vector<TableLines> DirectionReport::take_lines() {
  if (lines_.empty()) return {};
  return {{"directions.csv", "round,client,weight,rate,angle", std::exchange(lines_, {})}};
}

}  // namespace hanse
