#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/kinds/clock.hpp"
#include "lines.hpp"

namespace hanse {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kAnyClient = std::numeric_limits<int64_t>::max();
constexpr const char* kProfileHeader = "client,seconds_per_sample,down_bps,up_bps,latency_s";

// The numbers of a line, of which the first is the id of a client below `clients`.
std::vector<double> fields_of(const std::string& line, const std::string& form, int64_t clients,
                              const std::string& where) {
  std::vector<double> numbers;
  const auto items = split_list(line);
  if (items.size() > 1 && !number_in(items[0])) {
    throw InvalidArgument(fmt::format("client '{}' is no number", items[0]), where,
                          "clients are numbered from 0, as in clients.csv, whatever their names");
  }
  try {
    if (items.size() != split_list(form).size()) throw InvalidArgument("");
    numbers.push_back(static_cast<double>(parse_integer(items[0])));
    for (std::size_t i = 1; i < items.size(); ++i) numbers.push_back(parse_number(items[i]));
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' has not the numbers of a line", line), where,
                          "a line is: " + form);
  }
  if (numbers[0] >= 0 && numbers[0] < static_cast<double>(clients)) return numbers;
  throw InvalidArgument(fmt::format("client {} is outside [0, {})", numbers[0], clients), where);
}

void require_in(double value, const Range& range, const char* what, const std::string& where) {
  if (range.contains(value)) return;
  throw InvalidArgument(
      fmt::format("{} of {} is not in {}", what, number_text(value), range.text()), where);
}

std::vector<ClientProfile> read_profiles(const std::string& path) {
  std::vector<ClientProfile> rows;
  bool has_header = false;
  const auto take = [&](const std::string& line, int64_t, const std::string& where) {
    if (!std::exchange(has_header, true)) {
      if (line == kProfileHeader) return;
      throw InvalidArgument("the header is missing", where,
                            fmt::format("the first line is: {}", kProfileHeader));
    }
    const auto row = fields_of(line, kProfileHeader, kAnyClient, where);
    if (row[0] != static_cast<double>(rows.size())) {
      throw InvalidArgument(fmt::format("client {}, expected {}", row[0], rows.size()), where,
                            "this column counts the lines from 0");
    }
    require_in(row[1], above(0), "seconds_per_sample", where);
    if (row[2] != kInfinite) require_in(row[2], above(0), "down_bps", where);
    if (row[3] != kInfinite) require_in(row[3], above(0), "up_bps", where);
    require_in(row[4], at_least(0), "latency_s", where);
    rows.push_back({.sample_s = row[1], .down_bps = row[2], .up_bps = row[3], .latency_s = row[4]});
  };
  each_line(path, "profiles of the clients", kProfileHeader, take);
  if (rows.empty()) throw InvalidArgument("there are no profiles", path);
  return rows;
}

std::unique_ptr<OnLine> read_on_line(const std::string& path, int64_t clients) {
  constexpr const char* kForm = "client,on,off";
  Ticks period = 0;
  std::vector<OnInterval> intervals;
  std::vector<Ticks> ends(to_index(clients), 0);  // of each client's last interval
  const auto take = [&](const std::string& line, int64_t, const std::string& where) {
    if (period == 0) {
      const auto items = split_list(line);
      const bool is_period = items.size() == 2 && items[0] == "period";
      if (is_period) require_in(parse_number(items[1]), above(0), "the period", where);
      if (!is_period) {
        throw InvalidArgument("the period is missing", where, "the first line is: period,SECONDS");
      }
      period = ticks_of(parse_number(items[1]));
      return;
    }
    if (intervals.empty() && line == kForm) return;
    const auto row = fields_of(line, kForm, clients, where);
    require_in(row[1], at_least(0), "on", where);
    require_in(row[2], above(row[1]), "off", where);
    require_in(row[2], between(0, seconds_of(period)), "off", where);
    const auto client = static_cast<int64_t>(row[0]);
    const OnInterval interval{.client = client,
                              .on = row[1] == 0 ? 0 : ticks_of(row[1]),
                              .off = std::min(ticks_of(row[2]), period)};
    Ticks& end = ends[to_index(client)];
    if (interval.on < end || interval.off <= interval.on) {
      throw InvalidArgument(fmt::format("client {} is on line from {}, before it goes at {}",
                                        client, row[1], seconds_of(std::max(end, interval.on))),
                            where, "the intervals of a client ascend and do not overlap");
    }
    end = interval.off;
    intervals.push_back(interval);
  };
  each_line(path, "times of the clients", "the first line is: period,SECONDS", take);
  if (period == 0) throw InvalidArgument("the period is missing", path);
  return make_periodic_on_line(clients, period, intervals);
}

LostWork read_lost(const std::string& path, int64_t clients, uint64_t seed) {
  constexpr const char* kForm = "client,probability";
  std::vector<double> probabilities(to_index(clients), 0.0);
  each_line(path, "probabilities of the clients", kForm,
            [&](const std::string& line, int64_t, const std::string& where) {
              if (line == kForm) return;
              const auto row = fields_of(line, kForm, clients, where);
              require_in(row[1], between(0, 1), "a probability", where);
              probabilities[static_cast<std::size_t>(row[0])] = row[1];
            });
  return {std::move(probabilities), seed};
}

std::unique_ptr<OnLine> make_on_line(const ClockOptions& options, int64_t clients, uint64_t seed) {
  const OnLineOptions& on_line = options.availability;
  switch (on_line.kind) {
    case OnLineKind::kMarkov: return make_markov_on_line(clients, on_line.a, on_line.b, seed);
    case OnLineKind::kDiurnal: return make_diurnal_on_line(clients, on_line.a, on_line.b, seed);
    case OnLineKind::kFile: return read_on_line(options.availability_path, clients);
    case OnLineKind::kAlways: break;
  }
  return make_always_on_line(clients);
}

}  // namespace

VirtualClock make_virtual_clock(const ClockOptions& options, std::span<const int64_t> samples,
                                ClientWork work, uint64_t seed) {
  const int64_t clients = std::ssize(samples);
  ClientProfiles profiles = options.path.empty()
                                ? ClientProfiles(options, samples, seed)
                                : ClientProfiles(options, read_profiles(options.path), seed);
  LostWork lost = options.lost.by_file ? read_lost(options.lost_path, clients, seed)
                                       : LostWork(options.lost.probability, seed);
  VirtualClock clock;
  clock.times = std::make_unique<ProfiledTimes>(std::move(profiles), std::move(work));
  clock.on_line = make_on_line(options, clients, seed);
  clock.tasks =
      std::make_unique<Tasks>(*clock.times, *clock.on_line, std::move(lost), options.leave);
  return clock;
}

}  // namespace hanse
