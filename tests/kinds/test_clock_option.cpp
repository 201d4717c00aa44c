// The keys of [clock] and [async], their files, and what does not fit together.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/families.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

struct CsvFile {
  explicit CsvFile(const std::string& text) : path(folder / "clock.csv") {
    std::ofstream(path, std::ios::binary) << text;
  }
  ScratchFolder folder;
  std::string path;
};

const std::vector<int64_t> kSamples{10, 20, 30};

VirtualClock made(const ClockOptions& options) {
  return make_virtual_clock(options, kSamples, {},
                            {.steps = [](int64_t) { return int64_t{2}; },
                             .samples = [](int64_t c, int64_t steps) { return (c + 1) * steps; },
                             .bytes = {.down = 1000000, .up = 500000}},
                            7);
}

TEST(ClockFiles, GiveEachClientTheProfileOfItsRow) {
  const CsvFile file(
      "# two for three clients\nclient,seconds_per_sample,down_bps,up_bps,latency_s\r\n"
      "0,0.25,8e6,4e6,0.5\n1, 1 ,inf,8e6,0\n");
  const VirtualClock clock = made({.backward_factor = 3, .path = file.path});
  EXPECT_EQ(clock.times->whole(0, 1).total(), 1500000 + 3 * 2 * 250000 + 1500000);
  EXPECT_EQ(clock.times->whole(1, 1).total(), 1 + 3 * 4 * 1000000 + 500000);
  EXPECT_EQ(clock.times->phases(2, 1, 1).total(), 1500000 + 3 * 3 * 250000 + 1500000);
}

TEST(ClockFiles, SayWhenClientsAreOnLineAndWhoIsLost) {
  const CsvFile times("period,10\nclient,on,off\n0,0,2\n2,1,4\n0,5,10\n");
  ClockOptions options{.availability = OnLineOptions::parse("file"),
                       .availability_path = times.path};
  const VirtualClock clock = made(options);
  EXPECT_EQ(clock.on_line->changes(0), std::vector<int64_t>{2});
  EXPECT_EQ(clock.on_line->changes(13500000), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(clock.on_line->next_off(0, 5000000), 12000000);
  EXPECT_EQ(clock.on_line->next_off(1, 0), kNever);  // nobody names it
  const CsvFile lost("client,probability\n1,1\n");
  options = {.lost = LostOptions::parse("file"), .lost_path = lost.path};
  EXPECT_FALSE(made(options).tasks->fate(1, 1, 0).arrives);
  EXPECT_TRUE(made(options).tasks->fate(0, 1, 0).arrives);
}

TEST(ClockFiles, NameFileAndLineOfWhatIsWrong) {
  const auto refused = [](const std::string& text, std::string ClockOptions::*path,
                          std::initializer_list<std::string> parts) {
    const CsvFile file(text);
    ClockOptions options{.availability = OnLineOptions::parse("always"),
                         .lost = LostOptions::parse("0")};
    if (path == &ClockOptions::availability_path) options.availability.kind = OnLineKind::kFile;
    if (path == &ClockOptions::lost_path) options.lost.by_file = true;
    options.*path = file.path;
    const std::string message = message_of<InvalidArgument>([&] { made(options); });
    expect_parts(message, parts);
    EXPECT_NE(message.find(file.path), std::string::npos) << message;
  };
  const std::string header = "client,seconds_per_sample,down_bps,up_bps,latency_s\n";
  const auto profile = &ClockOptions::path;
  refused("0,1,1,1,0\n", profile, {":1", "header"});
  refused(header, profile, {"no profiles"});
  refused(header + "0,1,1,1,0\n2,1,1,1,0\n", profile, {":3", "client 2, expected 1"});
  refused(header + "0,1,1,1\n", profile, {":2", "latency_s"});
  refused(header + "0,0,1,1,0\n", profile, {":2", "seconds_per_sample of 0", "(0, inf)"});
  refused(header + "0,1,-1,1,0\n", profile, {":2", "down_bps of -1"});
  refused(header + "0,1,1,0,0\n", profile, {":2", "up_bps of 0"});
  refused(header + "0,1,1,1,inf\n", profile, {":2", "latency_s of inf"});
  refused(header + "0,x,1,1,0\n", profile, {":2", "0,x,1,1,0"});
  const auto times = &ClockOptions::availability_path;
  refused("", times, {"period is missing"});
  refused("0,0,1\n", times, {":1", "period,SECONDS"});
  refused("period,0\n", times, {":1", "the period of 0"});
  refused("period,10\n3,0,1\n", times, {":2", "client 3 is outside [0, 3)"});
  refused("period,10\n0,5,5\n", times, {":2", "off of 5"});
  refused("period,10\n0,5,4\n", times, {":2", "off of 4"});
  refused("period,10\n0,-1,4\n", times, {":2", "on of -1"});
  refused("period,10\n0,5,11\n", times, {":2", "off of 11"});
  refused("period,10\n0,0,4\n1,0,1\n0,3,5\n", times, {":4", "client 0", "do not overlap"});
  refused("period,10\n0,6,7\n0,1,2\n", times, {":3", "client 0", "ascend"});
  const auto lost = &ClockOptions::lost_path;
  refused("client,probability\n0,1.5\n", lost, {":2", "probability of 1.5"});
  refused("client,probability\n5,0.5\n", lost, {":2", "client 5"});
  refused("0\n", lost, {":1", "client,probability"});
}

struct TestJob : KeyedJob {
  TestJob() : KeyedJob(kind_families()) {}
  explicit TestJob(std::initializer_list<std::pair<const char*, const char*>> values) : TestJob() {
    for (const auto& [key, value] : values) table.set(key, value, "test");
    table.resolve();
  }
  // What goes with what, and the checks of the chosen kinds.
  void check() {
    require_no_conflict(facts_of(*this));
    for (const KindFamily& family : kind_families()) {
      if (family.section() != "clock" && family.section() != "async") continue;
      if (const auto& check = family.find(family.choice(*this)).check) check(*this);
    }
  }
};

TEST(ClockKeys, HaveTheirDefaultsAndTakeNoTime) {
  TestJob job;
  EXPECT_FALSE(job.clock.is_on());
  EXPECT_FALSE(job.async.is_on());
  job.check();
  for (const auto& [key, value] : {std::pair{"clock.kind", "none"},
                                   {"clock.seed", "auto"},
                                   {"clock.speed", "constant(1)"},
                                   {"clock.sample-seconds", "0.005"},
                                   {"clock.down-mbit", "inf"},
                                   {"clock.availability", "always"},
                                   {"clock.leave", "lose"},
                                   {"clock.lost", "0"},
                                   {"clock.round", "all"},
                                   {"clock.deadline-seconds", "60"},
                                   {"clock.late", "drop"},
                                   {"clock.empty-seconds", "10"},
                                   {"sampler.over-select", "1"},
                                   {"run.virtual-seconds", "0"},
                                   {"evaluate.every-seconds", "0"},
                                   {"async.kind", "none"},
                                   {"async.staleness", "poly"},
                                   {"async.a", "0.5"},
                                   {"async.b", "4"},
                                   {"async.mixing", "0.6"},
                                   {"async.ahead", "1"}}) {
    EXPECT_EQ(job.table.at(key).format(), value) << key;
  }
}

TEST(ClockKeys, AreOnlyReadWhereTheirKindIsChosen) {
  const TestJob job({{"clock.speed", "uniform(1,2)"}, {"async.buffer", "3"}});
  const auto ignored = job.table.ignored();
  EXPECT_EQ(ignored, (std::vector<std::string>{"clock.speed (clock.kind=none)",
                                               "async.buffer (async.kind=none)"}));
  EXPECT_TRUE(TestJob({{"clock.kind", "virtual"}, {"async.a", "3"}}).table.ignored().empty());
}

TEST(ClockKeys, RefuseValuesOutOfRange) {
  for (const auto& [key, value] : {std::pair{"clock.kind", "real"},
                                   {"clock.seed", "-1"},
                                   {"clock.sample-seconds", "0"},
                                   {"clock.speed", "uniform(0,1)"},
                                   {"clock.size-correlation", "1.1"},
                                   {"clock.backward-factor", "0"},
                                   {"clock.down-mbit", "constant(0)"},
                                   {"clock.latency-ms", "-1"},
                                   {"clock.jitter", "3.1"},
                                   {"clock.availability", "often"},
                                   {"clock.lost", "1"},
                                   {"clock.deadline-seconds", "quantile(0)"},
                                   {"clock.empty-seconds", "0"},
                                   {"clock.server-seconds", "-1"},
                                   {"sampler.over-select", "0.9"},
                                   {"sampler.over-select", "10.1"},
                                   {"run.virtual-seconds", "-1"},
                                   {"evaluate.every-seconds", "-1"},
                                   {"async.concurrency", "0"},
                                   {"async.buffer", "0"},
                                   {"async.mixing", "0"},
                                   {"async.mixing", "1.1"},
                                   {"async.open-slots", "0"},
                                   {"async.ahead", "2"},
                                   {"async.max-staleness", "-1"}}) {
    TestJob job;
    expect_error<InvalidArgument>([&, k = key, v = value] { job.table.set(k, v, "test"); },
                                  {key, value});
  }
}

void expect_refused(std::initializer_list<std::pair<const char*, const char*>> values,
                    std::initializer_list<std::string> parts) {
  TestJob job(values);
  job.clock.kind = "virtual";
  expect_error<InvalidArgument>([&] { job.check(); }, parts);
}

TEST(ClockChecks, RefuseWhatDoesNotFitTogether) {
  expect_refused({{"clock.path", "p"}, {"clock.speed", "constant(2)"}}, {"clock.speed"});
  expect_refused({{"clock.path", "p"}, {"clock.latency-ms", "2"}}, {"clock.latency-ms"});
  expect_refused({{"clock.path", "/no/such"}}, {"clock.path", "/no/such"});
  expect_refused({{"clock.availability", "file"}}, {"clock.availability-path"});
  expect_refused({{"clock.availability-path", "p"}}, {"clock.availability-path"});
  expect_refused({{"clock.lost", "file"}}, {"clock.lost-path"});
  expect_refused({{"clock.availability", "markov(1,1)"}, {"sampler.availability", "0.5"}},
                 {"sampler.availability"});
  expect_refused({{"clock.late", "carry"}}, {"clock.late", "deadline"});
  expect_refused({{"sampler.over-select", "1.3"}, {"sampler.replacement", "true"}},
                 {"sampler.over-select", "replacement"});
  expect_refused({{"client.stragglers", "0.5"}}, {"client.stragglers"});
  expect_refused({{"run.round-seconds", "5"}}, {"run.round-seconds"});
  TestJob({{"clock.kind", "virtual"},
           {"clock.round", "deadline"},
           {"clock.late", "carry"},
           {"sampler.over-select", "1.3"}})
      .check();
}

TEST(AsyncChecks, RefuseWhatDoesNotFitTogether) {
  const std::pair<const char*, const char*> on{"async.kind", "fedbuff"};
  expect_refused({on, {"clock.round", "first"}}, {"clock.round"});
  expect_refused({on, {"sampler.over-select", "2"}}, {"sampler.over-select"});
  expect_refused({on, {"async.open-slots", "11"}}, {"async.open-slots", "11"});
  expect_refused({on, {"evaluate.regret", "true"}}, {"evaluate.regret"});
  const std::pair<const char*, const char*> mixes{"async.kind", "fedasync"};
  expect_refused({mixes, {"aggregator.kind", "term"}}, {"aggregator.kind", "fedavg"});
  expect_refused({mixes, {"server.lr", "0.5"}}, {"server.lr"});
  expect_refused({mixes, {"server.optimizer", "adam"}}, {"server.optimizer"});
  expect_refused({mixes, {"client.update", "scaffold"}}, {"client.update", "ditto"});
  TestJob without({on});
  expect_error<InvalidArgument>([&] { without.check(); }, {"clock.kind", "virtual"});
  TestJob job({{"clock.kind", "virtual"}, on, {"async.buffer", "50"}});  // fills over waves
  job.check();
  check_clock(job, 10);
  expect_error<InvalidArgument>([&] { check_clock(job, 9); },
                                {"10 tasks", "9 clients", "async.concurrency"});
}

TEST(ClockChecks, RefuseWhoNeedsEverybodyWhereNotAllCount) {
  const auto job_of = [](std::initializer_list<std::pair<const char*, const char*>> values) {
    auto job = std::make_unique<TestJob>(values);
    if (values.size() > 0) job->clock.kind = "virtual";
    return job;
  };
  const auto check = [](TestJob& job) {
    job.client.kind = "fednl";
    job.sampler.kind = "full";
    require_no_conflict(facts_of(job));
  };
  check(*job_of({}));
  check(*job_of({{"clock.jitter", "0.1"}}));
  const auto expect_needed = [&](const char* key, const char* value, const char* chooser) {
    const auto job = job_of({{key, value}});
    EXPECT_FALSE(all_drawn_count(*job)) << key;
    expect_error<InvalidArgument>([&] { check(*job); }, {"fednl needs every client", chooser});
  };
  expect_needed("clock.round", "first", "clock.kind");
  expect_needed("clock.round", "deadline", "clock.kind");
  expect_needed("clock.lost", "0.1", "clock.kind");
  expect_needed("clock.availability", "markov(1,1)", "clock.kind");
  expect_needed("async.kind", "fedbuff", "async.kind");
}

TEST(ClockChecks, SayWhyInclusionIsNotKnown) {
  const auto why = [](std::initializer_list<std::pair<const char*, const char*>> values) {
    TestJob job({{"clock.kind", "virtual"}, {"clock.round", "first"}});
    for (const auto& [key, value] : values) job.table.set(key, value, "test");
    return no_inclusion(job);
  };
  EXPECT_EQ(why({}), "");
  EXPECT_NE(why({{"clock.kind", "none"}}), "");
  EXPECT_NE(why({{"clock.round", "all"}}), "");
  EXPECT_NE(why({{"clock.jitter", "0.1"}}).find("jitter"), std::string::npos);
  EXPECT_NE(why({{"clock.lost", "0.1"}}).find("lost"), std::string::npos);
  EXPECT_NE(why({{"clock.availability", "markov(1,1)"}}), "");
  EXPECT_NE(why({{"sampler.availability", "0.5"}}), "");
  EXPECT_NE(why({{"sampler.kind", "weighted"}}).find("uniform"), std::string::npos);
  EXPECT_NE(why({{"sampler.replacement", "true"}}), "");
}

}  // namespace
}  // namespace hanse
