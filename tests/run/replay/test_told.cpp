// The rows of rules/told.hpp: a number with a row is hidden, copied, written and read back.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/execute.hpp"
#include "run/told_fields.hpp"
#include "support/errors.hpp"

namespace hanse {

// A report of numbers that no rule is told, and who asks for one of them.
struct HeatReport {
  std::span<const double> heat;
  std::span<const int64_t> visits;
};
struct HeatNeeds {
  bool heat = false;
};
template <class T>
using ToldOfHeat = ToldNumber<T, HeatReport, bool HeatNeeds::*, HanseReport>;
template <>
inline constexpr auto kTold<HeatReport> =
    std::tuple(ToldOfHeat<double>{"heat", &HeatReport::heat, &HeatNeeds::heat},
               ToldOfHeat<int64_t>{"visits", &HeatReport::visits});

namespace {

using Numbers = std::vector<double>;
using Ids = std::vector<int64_t>;

const Numbers kHeat{0.1, 5, 2};
const Ids kVisits{7, 0, 9};
constexpr HeatNeeds kAsks{.heat = true};

template <class T>
std::vector<T> all(std::span<const T> numbers) {
  return {numbers.begin(), numbers.end()};
}

OwnedReport<HeatReport> read(const Json& round, const HeatNeeds& needs) {
  OwnedReport<HeatReport> told;
  read_told(round, 3, needs, "rounds[4]", told);
  return told;
}

TEST(Told, ANewNumberNeedsOneRow) {
  const HeatReport report{.heat = kHeat, .visits = kVisits};
  EXPECT_TRUE(only_told(report, HeatNeeds{}).heat.empty());
  EXPECT_EQ(all(only_told(report, HeatNeeds{}).visits), kVisits);
  EXPECT_EQ(all(only_told(report, kAsks).heat), kHeat);
  nlohmann::ordered_json line;
  add_told(report, 0, line);
  EXPECT_EQ(to_text(line), R"({"heat": [0.10000000000000001, 5, 2], "visits": [7, 0, 9]})");
  const Json round = Json::parse(to_text(line));
  EXPECT_EQ(all(read(round, kAsks).report().heat), kHeat);
  EXPECT_EQ(all(read(round, kAsks).report().visits), kVisits);
  EXPECT_TRUE(read(round, HeatNeeds{}).report().heat.empty());
}

TEST(Told, CopiesOwnTheirNumbers) {
  OwnedReport<HeatReport> copy, some;
  {
    const Numbers heat = kHeat;
    const Ids visits = kVisits;
    const HeatReport report{.heat = heat, .visits = visits};
    copy = copy_told(report);
    some = at_places(report, {2, 2, 0, 1});
  }
  EXPECT_EQ(all(copy.report().heat), kHeat);
  EXPECT_EQ(all(some.report().heat), (Numbers{2, 2, 0.1, 5}));
  EXPECT_EQ(all(some.report().visits), (Ids{9, 9, 7, 0}));
  EXPECT_TRUE(at_places(HeatReport{}, {0, 1}).report().heat.empty());
}

TEST(Told, ANumberThatIsAskedForIsNeverEmpty) {
  const auto refuses = [](const Json& round, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { read(round, kAsks); }, parts);
  };
  refuses({{"visits", {1, 2, 3}}}, {"field 'heat' is missing", "rounds[4]"});
  refuses({{"heat", {1, 2}}}, {"array of 3 numbers", "rounds[4].heat"});
  refuses({{"heat", {1, -2, 3}}}, {"-2 is below 0", "rounds[4].heat"});
  refuses({{"heat", {1, 2, 3}}, {"visits", {1, 2}}}, {"3 numbers", "rounds[4].visits"});
  refuses({{"heat", {1, 2, 3}}, {"visits", {1, 2.5, 3}}}, {"2.5 is no int", "rounds[4].visits"});
  EXPECT_TRUE(read({{"heat", {1, 2, 3}}}, kAsks).report().visits.empty());
}

// A round of three participants with every number that aggregators are told.
Json full_round() {
  Json round{{"participants", {0, 1, 2}}};
  for_each_told<RoundReport>([&](const auto& row) { round[row.name] = {1, 2, 0}; });
  round["gram"] = {{3, 1, 0}, {1, 2, 0}, {0, 0, 4}};
  return round;
}

// Every kind is refused without a number that it asks for, and every number is asked for by one.
TEST(Told, AggregatorsAreRefusedWhatIsMissing) {
  std::map<std::string, std::set<std::string>> asked;  // kinds by number
  for (const std::string kind : {"propfair", "qfedavg", "superquantile", "aaggff-s", "fedmgda+",
                                 "fedlf", "dqn-fed", "fedheal", "krum", "mda"}) {
    KeyedJob job(catalog());
    job.aggregator.kind = kind;
    const AggregatorNeeds needs = make_aggregator(job, 3, 1)->needs();
    const auto play = [&](const Json& round) {
      const Json rule{{"aggregator.kind", kind}};
      replay(Json{{"rule", rule}, {"clients", 3}, {"rounds", {round}}}.dump());
    };
    EXPECT_NO_THROW(play(full_round())) << kind;
    for_each_told<RoundReport>([&](const auto& row) {
      if (!row.asked || !(needs.*row.asked)) return;
      asked[row.name].insert(kind);
      Json round = full_round();
      round.erase(row.name);
      expect_error<InvalidArgument>(
          [&] { play(round); }, {"field '" + std::string(row.name) + "' is missing", "rounds[0]"});
    });
  }
  for_each_told<RoundReport>([&](const auto& row) {
    EXPECT_EQ(row.asked == nullptr, asked[row.name].empty()) << row.name;
  });
}

TEST(Told, SamplersAreRefusedWhatIsMissing) {
  Json round{{"draws", {0, 2}}, {"available", {0, 1, 2}}};
  for_each_told<Feedback>([&](const auto& row) { round[row.name] = {1, 2}; });
  const auto play = [](const Json& one) {
    replay(Json{{"rule", {{"sampler.kind", "oort"}}}, {"clients", 3}, {"rounds", {one}}}.dump());
  };
  EXPECT_NO_THROW(play(round));
  int asked = 0;
  for_each_told<Feedback>([&](const auto& row) {
    if (!row.asked) return;
    ++asked;
    Json without = round;
    without.erase(row.name);
    expect_error<InvalidArgument>(
        [&] { play(without); }, {"field '" + std::string(row.name) + "' is missing", "rounds[0]"});
  });
  EXPECT_EQ(asked, 2);
}

// A run writes such rounds when nobody is there.
TEST(Told, ARoundOfNobodyLacksNothing) {
  const Json nobody{{"participants", Json::array()}, {"sizes", Json::array()}};
  for (const std::string kind : {"qfedavg", "fedlf", "median", "fedheal"}) {
    const Json rule{{"aggregator.kind", kind}};
    const Json trace{{"rule", rule}, {"clients", 3}, {"rounds", {nobody}}};
    EXPECT_EQ(replay(trace.dump()), "{\"rounds\": [{\"step\": 1, \"weights\": []}]}\n") << kind;
  }
  const Json undrawn{{"draws", Json::array()},
                     {"feedback", Json::array()},
                     {"losses", Json::array()},
                     {"available", Json::array()}};
  const Json rule{{"sampler.kind", "oort"}, {"sampler.per-round", 2}};
  const Json trace{{"rule", rule}, {"clients", 3}, {"rounds", {undrawn}}};
  EXPECT_NO_THROW(replay(trace.dump()));
}

}  // namespace
}  // namespace hanse
