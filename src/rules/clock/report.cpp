#include "hanse/rules/clock/report.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr std::size_t kClasses = 12;  // of staleness: 0, 1, 2, 4, ..., 1024

Metrics round_of(const BufferedVersion& version, int64_t kept) {
  double sum = 0, largest = version.members.empty() ? std::nan("") : 0;
  for (const BufferedTask& task : version.members) {
    const auto tau = static_cast<double>(task.staleness);
    sum += tau;
    largest = std::max(largest, tau);
  }
  return {{"virtual_seconds", seconds_of(version.tick)},
          {"round_virtual_seconds", seconds_of(version.duration)},
          {"on_line", static_cast<double>(version.on_line)},
          {"staleness_mean", sum / static_cast<double>(version.members.size())},
          {"staleness_max", largest},
          {"discarded", static_cast<double>(version.discarded)},
          {"lost", static_cast<double>(version.lost)},
          {"in_flight_mean", version.in_flight_mean},
          {"versions_kept", static_cast<double>(kept)}};
}

}  // namespace

Metrics participation_metrics(std::span<const int64_t> counted) {
  std::vector<int64_t> sorted(counted.begin(), counted.end());
  std::sort(sorted.begin(), sorted.end());
  double sum = 0, weighted = 0, entropy = 0;
  const auto m = static_cast<double>(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto n = static_cast<double>(sorted[i]);
    sum += n;
    weighted += (2 * static_cast<double>(i) + 1 - m) * n;
  }
  for (const int64_t n : sorted) {
    const double p = static_cast<double>(n) / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  return {{"participation_gini", weighted / (m * sum)},
          {"participation_entropy", sum > 0 ? entropy : std::nan("")},
          {"participation_min", static_cast<double>(sorted.front())}};
}

BufferedReport::BufferedReport(int64_t clients)
    : counted_(to_index(clients)), staleness_(kClasses), round_(round_of({}, 0)) {}

void BufferedReport::add(const BufferedVersion& version, int64_t kept) {
  for (const BufferedTask& task : version.members) {
    ++counted_[to_index(task.client)];
    const auto bits = static_cast<std::size_t>(std::bit_width(to_index(task.staleness)));
    ++staleness_[std::min(bits, kClasses - 1)];
  }
  round_ = round_of(version, kept);
}

void BufferedReport::add_columns(Columns& columns) const {
  columns.add_to_rounds([this] { return round_; });
  columns.add_to_clients([this](int64_t client) {
    const bool trains = client < std::ssize(counted_);
    return Metrics{{"counted", trains ? static_cast<double>(counted_[to_index(client)]) : 0}};
  });
  columns.add_to_summary([this] {
    Metrics all = participation_metrics(counted_);
    for (std::size_t c = 0; c < kClasses; ++c) {
      const std::size_t least = c == 0 ? 0 : std::size_t{1} << (c - 1);
      all.emplace_back(fmt::format("staleness_{}", least), static_cast<double>(staleness_[c]));
    }
    return all;
  });
}

void BufferedReport::visit(StateFields& fields) {
  fields.fixed("counted", counted_);
  fields.fixed("staleness", staleness_);
}

}  // namespace hanse
