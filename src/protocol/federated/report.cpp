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

ParticipationLine line_of(const UncountedTask& task, int64_t round, int64_t samples) {
  return {.round = round,
          .client = task.client,
          .weight = 0,
          .samples = samples,
          .seconds = task.state == TaskState::kLost ? ParticipationLine::kUnknown : task.seconds(),
          .received = task.received,
          .staleness = task.staleness,
          .counted = false,
          .state = task.state,
          .span = task.span};
}

void ParticipationReport::add(const ParticipationLine& line) {
  const auto put = [&](int64_t number) {
    if (number != ParticipationLine::kNone) lines_ += fmt::format_int(number).str();
    lines_ += ',';
  };
  put(line.round);
  put(line.client);
  lines_ += number_or_nothing(line.weight) + ",";
  put(line.samples);
  put(line.steps);
  if (!std::isnan(line.seconds)) lines_ += fmt::format("{:.6g}", line.seconds);
  lines_ += ',';
  put(line.received);
  put(line.staleness);
  lines_ += line.counted ? '1' : '0';
  if (timed_) {
    constexpr auto kStates = choices_of(TaskState());
    lines_.append(",").append(kStates[static_cast<std::size_t>(line.state)]) += ',';
    if (line.span) append_seconds(lines_, line.span->start);
    lines_ += ',';
    if (line.span) append_seconds(lines_, line.span->known);
  }
  lines_ += '\n';
}

std::vector<TableLines> ParticipationReport::take_lines() {
  if (lines_.empty() && has_header_) return {};
  has_header_ = true;
  std::string header = "round,client,weight,samples,steps,seconds,received,staleness,counted";
  if (timed_) header += ",state,start,arrival";
  return {{"participation.csv", header, std::exchange(lines_, {})}};
}

}  // namespace hanse
