#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/rules/clock/buffered_events.hpp"
#include "hanse/rules/clock/round_clock.hpp"
#include "hanse/rules/clock/staleness.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostVersions = int64_t{1} << 30;

// The clients of a trace, whose tasks take the durations that it has.
struct TraceClients {
  explicit TraceClients(const Json& trace)
      : clients(clients_of(trace)),
        times(numbers(trace, "durations", static_cast<std::size_t>(clients), 0, "trace")),
        on_line(make_always_on_line(clients)),
        tasks(times, *on_line, {}, LeaveRule::kLose) {}

  int64_t clients;
  GivenTimes times;
  std::unique_ptr<OnLine> on_line;
  Tasks tasks;
};

void require_there(std::span<const int64_t> drawn, const ClientSet& there,
                   const std::string& where) {
  for (const int64_t client : drawn) {
    if (there.contains(client)) continue;
    throw InvalidArgument(fmt::format("client {} has a task in flight", client), where);
  }
}

// The draws of a trace, one a dispatch.
class RecordedDraws final : public Dispatcher {
 public:
  RecordedDraws(const Json& trace, int64_t clients)
      : draws_(field(trace, "draws", "trace")), there_(clients) {
    if (!draws_.is_array()) throw InvalidArgument("expected an array of draws", "draws");
  }

  void toggle(std::span<const int64_t> clients) override {
    for (const int64_t client : clients) there_.toggle(client);
  }
  Dispatched draw(int64_t call, int64_t n) override {
    if (call > std::ssize(draws_)) {
      throw InvalidArgument(fmt::format("{} draws, and dispatch {} needs one", draws_.size(), call),
                            "draws");
    }
    const std::string where = fmt::format("draws[{}]", call - 1);
    const Json& draw = draws_[static_cast<std::size_t>(call - 1)];
    Dispatched drawn{ids(draw, there_.clients(), false, where), {}};
    if (std::ssize(drawn.clients) != n) {
      throw InvalidArgument(fmt::format("{} clients, expected {}", drawn.clients.size(), n), where);
    }
    require_there(drawn.clients, there_, where);
    return drawn;
  }

 private:
  const Json& draws_;
  ClientSet there_;
};

// What the members of a version count, where all clients are as important.
std::vector<double> weights_of(const BufferedVersion& version, const AsyncOptions& options) {
  const std::vector<double> m(version.members.size(),
                              1 / static_cast<double>(version.members.size()));
  std::vector<int64_t> tau;
  for (const BufferedTask& task : version.members) tau.push_back(task.staleness);
  if (options.is_fedasync()) return {mixing_rate(options, tau.front())};
  return buffer_coefficients(options, m, tau);
}

Json to_json(const BufferedVersion& version, const AsyncOptions& options) {
  Json members = Json::array();
  for (const BufferedTask& task : version.members) {
    members.push_back({task.client, task.received, task.staleness});
  }
  return {{"tick", version.tick},
          {"version", version.number},
          {"members", members},
          {"weights", weights_of(version, options)}};
}

// The clients at these places of a draw.
std::vector<int64_t> clients_at(std::span<const int64_t> drawn, std::span<const int64_t> places) {
  std::vector<int64_t> clients;
  for (const int64_t place : places) clients.push_back(drawn[static_cast<std::size_t>(place)]);
  return clients;
}

// `component` with the state that `made` has saved.
template <class T, class Make>
void renew(std::unique_ptr<T>& component, Make make) {
  State state;
  component->save(state);
  component = make();
  component->load(state);
}

}  // namespace

Json replay_async(const Json& trace, const Job& job, bool checks) {
  if (!job.async.is_on()) throw InvalidArgument("there are no versions", "rule.async.kind");
  TraceClients of(trace);
  if (job.async.concurrency > of.clients || job.async.open_slots > job.async.concurrency) {
    throw InvalidArgument(fmt::format("{} tasks in flight, {} open slots and {} clients",
                                      job.async.concurrency, job.async.open_slots, of.clients),
                          "rule.async.concurrency", "none is larger than the one behind it");
  }
  std::unique_ptr<RecordedDraws> draws;
  const auto make = [&] {
    draws = std::make_unique<RecordedDraws>(trace, of.clients);
    return std::make_unique<BufferedEvents>(job.async, job.clock.empty_seconds, of.tasks,
                                            *of.on_line, *draws);
  };
  auto events = make();
  const int64_t versions = integer(field(trace, "versions", "trace"), 0, kMostVersions, "versions");
  Json result = Json::array();
  while (std::ssize(result) < versions) {
    if (checks) renew(events, make);
    result.push_back(to_json(events->next(), job.async));
  }
  return {{"versions", result}};
}

Json replay_rounds(const Json& trace, const Job& job, bool checks) {
  TraceClients of(trace);
  const auto make = [&] {
    return std::make_unique<RoundClock>(job.clock, job.sampler.per_round, of.tasks, *of.on_line);
  };
  auto clock = make();
  ClientSet there(of.clients);
  int64_t number = 0;
  return each_round(trace, [&](const Json& round, const std::string& where) -> Json {
    if (checks) {
      renew(clock, make);
      there = ClientSet(of.clients);
    }
    for (const int64_t client : clock->changes()) there.toggle(client);
    const auto draws = ids(field(round, "draws", where), of.clients, false, where + ".draws");
    require_there(draws, there, where + ".draws");
    if (std::ssize(draws) > clock->to_draw(of.clients)) {
      throw InvalidArgument(
          fmt::format("{} draws of at most {}", draws.size(), clock->to_draw(of.clients)),
          where + ".draws");
    }
    const RoundTimes& times = clock->play(++number, draws);
    Json result = {{"counted", clients_at(draws, times.counted)},
                   {"late", clients_at(draws, times.late)},
                   {"end", times.end}};
    if (job.clock.late != LateRule::kCarry) return result;
    result["carried"] = Json::array();
    for (const CarriedTask& task : times.carried) {
      result["carried"].push_back({task.client, task.round, task.staleness});
    }
    return result;
  });
}

}  // namespace hanse
