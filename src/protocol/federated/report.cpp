#include "federated/report.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

Metrics RoundAccount::numbers() const {
  return {{"seconds_broadcast", broadcast_s},
          {"seconds_reduce", reduce_s},
          {"seconds_step", step_s},
          {"seconds_draw", draw_s},
          {"seconds_losses", losses_s},
          {"seconds_products", products_s},
          {"bytes_broadcast", static_cast<double>(broadcast_bytes)},
          {"bytes_reduce", static_cast<double>(reduce_bytes)},
          {"bytes_updates", static_cast<double>(update_bytes)}};
}

Metrics DirectionReport::numbers() const {
  return {{"squared_norm", squared_norm_}, {"ridge", ridge_},         {"scale", scale_},
          {"dropped", dropped_},           {"conflicts", conflicts_}, {"angle_max", angle_max_}};
}

void DirectionReport::skip() {
  squared_norm_ = ridge_ = scale_ = dropped_ = conflicts_ = angle_max_ = std::nan("");
}

void DirectionReport::add(int64_t round, std::span<const int64_t> clients,
                          std::span<const double> gram, std::span<const double> rates,
                          const Mix& mix) {
  const std::size_t k = clients.size();
  const std::size_t updates = gram.size() / mix.coefficients.size();  // K + A
  const StepView view = view_step(gram, mix.coefficients, static_cast<int64_t>(updates),
                                  static_cast<int64_t>(updates - k));
  squared_norm_ = view.squared_norm;
  ridge_ = mix.direction.ridge;
  scale_ = mix.direction.scale;
  dropped_ = static_cast<double>(mix.direction.dropped);
  conflicts_ = static_cast<double>(view.conflicts);
  angle_max_ = std::nan("");
  for (const double angle : view.angles) angle_max_ = std::fmax(angle_max_, angle);  // not NaN
  if (static_cast<int64_t>(k) > kMostClients) return;
  const bool layered = mix.coefficients.size() > updates;
  for (std::size_t i = 0; i < k; ++i) {
    const double unweighted = std::nan("");  // one weight a layer
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
