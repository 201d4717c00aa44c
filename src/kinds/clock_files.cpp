#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/kinds/clock.hpp"
#include "lines.hpp"
#include "named_clients.hpp"

namespace hanse {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr const char* kProfileHeader = "client,seconds_per_sample,down_bps,up_bps,latency_s";

void require_in(double value, const Range& range, const char* what, const std::string& where) {
  if (range.contains(value)) return;
  throw InvalidArgument(
      fmt::format("{} of {} is not in {}", what, number_text(value), range.text()), where);
}

// Lines that are numbered from 0, or, by the names of clients, one for each of them in any order.
std::vector<ClientProfile> read_profiles(const std::string& path, const NamedClients& clients,
                                         const Names& names) {
  std::vector<ClientProfile> rows;
  bool has_header = false, by_name = false;
  int64_t count = 0;  // of lines
  const auto take = [&](const std::string& line, int64_t, const std::string& where) {
    if (!std::exchange(has_header, true)) {
      if (line == kProfileHeader) return;
      throw InvalidArgument("the header is missing", where,
                            fmt::format("the first line is: {}", kProfileHeader));
    }
    if (count++ == 0) by_name = names_a_client(line);
    const auto row = fields_of(line, kProfileHeader, clients, where, false);
    if (by_name != names_a_client(line)) {
      throw InvalidArgument("some lines have numbers of clients, others names", where);
    }
    if (by_name) rows.resize(to_index(clients.count()), {.sample_s = 0});
    if (by_name && rows[static_cast<std::size_t>(row[0])].sample_s > 0) {
      throw InvalidArgument("a second line of this client", where);
    }
    if (!by_name && row[0] != static_cast<double>(rows.size())) {
      throw InvalidArgument(fmt::format("client {}, expected {}", row[0], rows.size()), where,
                            "this column counts the lines from 0");
    }
    require_in(row[1], above(0), "seconds_per_sample", where);
    if (row[2] != kInfinite) require_in(row[2], above(0), "down_bps", where);
    if (row[3] != kInfinite) require_in(row[3], above(0), "up_bps", where);
    require_in(row[4], at_least(0), "latency_s", where);
    if (!by_name) rows.emplace_back();
    rows[static_cast<std::size_t>(row[0])] = {
        .sample_s = row[1], .down_bps = row[2], .up_bps = row[3], .latency_s = row[4]};
  };
  each_line(path, "profiles of the clients", kProfileHeader, take);
  if (rows.empty()) throw InvalidArgument("there are no profiles", path);
  for (std::size_t i = 0; by_name && i < rows.size(); ++i) {
    if (rows[i].sample_s > 0) continue;
    const auto client = static_cast<int64_t>(i);
    throw InvalidArgument(
        fmt::format("{} has no line", label_of("client", client, names.at(client))), path,
        "where lines name clients, each has one");
  }
  return rows;
}

std::unique_ptr<OnLine> read_on_line(const std::string& path, const NamedClients& named) {
  constexpr const char* kForm = "client,on,off";
  const int64_t clients = named.count();
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
    const auto row = fields_of(line, kForm, named, where);
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

LostWork read_lost(const std::string& path, const NamedClients& clients, uint64_t seed) {
  constexpr const char* kForm = "client,probability";
  std::vector<double> probabilities(to_index(clients.count()), 0.0);
  each_line(path, "probabilities of the clients", kForm,
            [&](const std::string& line, int64_t, const std::string& where) {
              if (line == kForm) return;
              const auto row = fields_of(line, kForm, clients, where);
              require_in(row[1], between(0, 1), "a probability", where);
              probabilities[static_cast<std::size_t>(row[0])] = row[1];
            });
  return {std::move(probabilities), seed};
}

std::unique_ptr<OnLine> make_on_line(const ClockOptions& options, const NamedClients& named,
                                     uint64_t seed) {
  const int64_t clients = named.count();
  const OnLineOptions& on_line = options.availability;
  switch (on_line.kind) {
    case OnLineKind::kMarkov: return make_markov_on_line(clients, on_line.a, on_line.b, seed);
    case OnLineKind::kDiurnal: return make_diurnal_on_line(clients, on_line.a, on_line.b, seed);
    case OnLineKind::kFile: return read_on_line(options.availability_path, named);
    case OnLineKind::kAlways: break;
  }
  return make_always_on_line(clients);
}

}  // namespace

VirtualClock make_virtual_clock(const ClockOptions& options, std::span<const int64_t> samples,
                                const Names& names, ClientWork work, uint64_t seed) {
  const NamedClients clients(std::ssize(samples), names);
  ClientProfiles profiles =
      options.path.empty()
          ? ClientProfiles(options, samples, seed)
          : ClientProfiles(options, read_profiles(options.path, clients, names), seed);
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
