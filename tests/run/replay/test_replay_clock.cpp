// Traces of the virtual clock: versions of asynchronous rounds, and who counts in others.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;

Json buffered(const Json& options = Json::object()) {
  Json rule = {{"async.kind", "fedbuff"}, {"async.concurrency", 3}, {"async.buffer", 2}};
  rule.update(options);
  return {{"rule", rule},
          {"clients", 4},
          {"durations", {2, 3, 5, 7}},
          {"draws", {{0, 1, 2}, {3}, {0}, {1, 2}, {0}, {1}, {2, 3}, {0}, {1}, {2}}},
          {"versions", 6}};
}

Json replayed(const Json& trace) { return Json::parse(replay(trace.dump())); }

TEST(ReplayAsync, TellsTheVersionsOfTheTable) {
  const Json versions = replayed(buffered()).at("versions");
  const std::vector<int64_t> ticks{3, 5, 9, 10, 14, 17};
  const Json members = {{{0, 0, 0}, {1, 0, 0}}, {{2, 0, 1}, {0, 1, 0}}, {{1, 2, 0}, {3, 0, 2}},
                        {{2, 2, 1}, {0, 2, 1}}, {{1, 3, 1}, {0, 4, 0}}, {{2, 4, 1}, {3, 4, 1}}};
  ASSERT_EQ(versions.size(), 6U);
  for (std::size_t v = 0; v < 6; ++v) {
    EXPECT_EQ(versions[v].at("tick"), 1000000 * ticks[v]);
    EXPECT_EQ(versions[v].at("version"), v + 1);
    EXPECT_EQ(versions[v].at("members"), members[v]);
  }
  EXPECT_EQ(versions[1].at("weights"), (std::vector{0.5 * std::pow(2, -0.5), 0.5}));
}

TEST(ReplayAsync, WeighsByTheKeys) {
  const auto weights = [](const Json& options) {
    return replayed(buffered(options)).at("versions").at(2).at("weights");
  };
  EXPECT_EQ(weights({{"async.staleness", "constant"}}), (std::vector{0.5, 0.5}));
  EXPECT_EQ(weights({{"async.staleness", "hinge"}, {"async.a", 3}, {"async.b", 1}}),
            (std::vector{0.5, 0.125}));
  EXPECT_EQ(weights({{"async.staleness", "threshold"},
                     {"async.a", 0.25},
                     {"async.b", 1},
                     {"async.normalize", "weights"}}),
            (std::vector{0.8, 0.2}));
  Json mixed = buffered({{"async.kind", "fedasync"}, {"async.mixing", 0.5}});
  mixed["versions"] = 3;
  mixed["draws"] = {{0, 1, 2}, {3}, {0}};
  EXPECT_EQ(replayed(mixed).at("versions").at(2).at("weights"),
            (std::vector{0.5 * std::pow(3, -0.5)}));
}

TEST(ReplayAsync, NamesWhatIsWrong) {
  const auto refused = [](const char* name, const Json& value,
                          std::initializer_list<std::string> parts) {
    Json trace = buffered();
    trace[name] = value;
    expect_error<InvalidArgument>([&] { replayed(trace); }, parts);
  };
  refused("draws", {{0, 1, 2}, {3}}, {"2 draws", "dispatch 3"});
  refused("draws", {{0, 1}, {3}}, {"draws[0]", "2 clients, expected 3"});
  refused("draws", {{0, 1, 2}, {1}}, {"draws[1]", "client 1 has a task in flight"});
  refused("draws", {{0, 1, 4}}, {"draws[0]"});
  refused("draws", 7, {"draws"});
  refused("durations", {1, 2}, {"durations"});
  refused("durations", {1, 2, 3, 1e15}, {"client 3"});
  refused("versions", -1, {"versions"});
  expect_error<InvalidArgument>(
      [] {
        replayed(buffered({{"async.concurrency", 5}}));
      },
      {"5 tasks in flight", "4 clients"});
  expect_error<InvalidArgument>(
      [] {
        replayed(buffered({{"async.kind", "none"}}));
      },
      {"async.kind"});
}

Json rounds(const Json& rule, const Json& draws) {
  Json trace = {
      {"rule", rule}, {"clients", 4}, {"durations", {4, 1, 3, 2}}, {"rounds", Json::array()}};
  for (const Json& drawn : draws) trace["rounds"].push_back({{"draws", drawn}});
  return trace;
}

TEST(ReplayRounds, TellWhoCountsAndWhenTheyEnd) {
  const Json first = {
      {"clock.round", "first"}, {"sampler.per-round", 2}, {"sampler.over-select", 1.5}};
  EXPECT_EQ(replayed(rounds(first, {{3, 0, 2}, {1, 0, 3}})).at("rounds"),
            (Json{{{"counted", {3, 2}}, {"late", {0}}, {"end", 3000000}},
                  {{"counted", {1, 3}}, {"late", {0}}, {"end", 5000000}}}));
  const Json deadline = {{"clock.round", "deadline"},
                         {"sampler.per-round", 3},
                         {"clock.deadline-seconds", "quantile(0.5)"}};
  EXPECT_EQ(replayed(rounds(deadline, {{3, 0, 2}})).at("rounds").at(0),
            (Json{{"counted", {3}}, {"late", {0, 2}}, {"end", 2000000}}));
  Json carry = deadline;
  carry["clock.late"] = "carry";
  EXPECT_EQ(
      replayed(rounds(carry, {{3, 0, 2}, {1}, {1}})).at("rounds").at(1),
      (Json{
          {"counted", {1}}, {"late", Json::array()}, {"end", 3000000}, {"carried", {{2, 1, 1}}}}));
  expect_error<InvalidArgument>(
      [&] {
        replayed(rounds(first, {{0, 1, 2, 3}}));
      },
      {"rounds[0].draws", "at most 3"});
}

TEST(ReplayClock, IsCheckedFromItsStates) {
  EXPECT_NE(check_replay(buffered().dump()).find("async.kind = fedbuff is pure"),
            std::string::npos);
  const Json carry = {{"clock.round", "deadline"},
                      {"sampler.per-round", 3},
                      {"clock.deadline-seconds", 2},
                      {"clock.late", "carry"}};
  EXPECT_NE(check_replay(rounds(carry, {{3, 0, 2}, {1}, {2}, {1}}).dump()).find("is pure"),
            std::string::npos);
}

}  // namespace
}  // namespace hanse
