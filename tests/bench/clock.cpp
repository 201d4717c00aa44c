// What an arrival of an asynchronous run costs, without training: its events, its duration and its
// share of a uniform draw.
//   hanse-bench-clock [ARRIVALS [CONCURRENCY [CLIENTS [BUFFER]]]]
// prints a JSON line: {"arrivals": n, "concurrency": C, "clients": M, "buffer": B, "versions": v,
// "virtual_seconds": t, "staleness_mean": s, "seconds": x, "seconds_to_make": of clients and
// sampler}. Speeds are log-normal, everyone is always on line, without jitter.
#include "hanse/base/clock.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/random.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/rules/clock/buffered_events.hpp"
#include "hanse/rules/sampling/basic.hpp"

namespace {

using namespace hanse;

class UniformDispatcher final : public Dispatcher {
 public:
  UniformDispatcher(int64_t clients, int64_t concurrency)
      : sampler_(make_uniform_sampler(clients, concurrency)) {}

  void toggle(std::span<const int64_t> clients) override { sampler_->toggle(clients); }
  Dispatched draw(int64_t call, int64_t n) override {
    RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(call));
    Draw draw = sampler_->draw(call, n, stream);
    return {std::move(draw.clients), std::move(draw.weights)};
  }

 private:
  std::unique_ptr<ClientSampler> sampler_;
};

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) {
  const auto number = [&](int i, int64_t otherwise) {
    return argc > i ? std::strtoll(argv[i], nullptr, 10) : otherwise;
  };
  const int64_t arrivals = number(1, 1000000), concurrency = number(2, 10000);
  const int64_t clients = number(3, 1000000), buffer = number(4, 10);
  const double start_s = monotonic_seconds();
  ClockOptions options;
  options.speed = Distribution::parse("lognormal(1,0.6)");
  const std::vector<int64_t> samples(static_cast<std::size_t>(clients), 100);
  ClientWork work;
  work.steps = [](int64_t) { return int64_t{5}; };
  work.samples = [](int64_t, int64_t steps) { return 20 * steps; };
  const ProfiledTimes times(ClientProfiles(options, samples, 1), work);
  const auto on_line = make_always_on_line(clients);
  const Tasks tasks(times, *on_line, {}, LeaveRule::kLose);
  UniformDispatcher dispatcher(clients, concurrency);
  AsyncOptions async;
  async.kind = "fedbuff";
  async.concurrency = concurrency;
  async.buffer = buffer;
  BufferedEvents events(async, options.empty_seconds, tasks, *on_line, dispatcher);
  const double made_s = monotonic_seconds();
  double staleness = 0;
  const int64_t versions = arrivals / buffer;
  for (int64_t version = 0; version < versions; ++version) {
    for (const BufferedTask& task : events.next().members) {
      staleness += static_cast<double>(task.staleness);
    }
  }
  const double end_s = monotonic_seconds();
  fmt::print(
      "{{\"arrivals\": {}, \"concurrency\": {}, \"clients\": {}, \"buffer\": {}, \"versions\": {}, "
      "\"virtual_seconds\": {}, \"staleness_mean\": {:.2f}, \"seconds\": {:.3f}, "
      "\"seconds_to_make\": {:.3f}}}\n",
      versions * buffer, concurrency, clients, buffer, versions, seconds_of(events.now()),
      staleness / static_cast<double>(versions * buffer), end_s - made_s, made_s - start_s);
  return 0;
}
