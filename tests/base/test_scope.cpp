#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/energy.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/base/simulated_time.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

void spend(double seconds) {
  const double end_s = monotonic_seconds() + seconds;
  while (monotonic_seconds() < end_s) {
  }
}

TEST(Phases, EveryMomentBelongsToTheInnermost) {
  const double start_s = monotonic_seconds() - 1;
  begin_phases(start_s);
  const auto now = [](Phase phase) { return phase_totals()[static_cast<std::size_t>(phase)]; };
  double inclusive_s = 0;
  {
    const Scope reduce(Phase::kReduce, inclusive_s);
    spend(0.002);
    for (int i = 0; i < 2; ++i) {
      const Scope step(Phase::kStep);
      spend(0.003);
    }
  }
  const double before_s = monotonic_seconds() - start_s;
  const PhaseTotals totals = phase_totals();
  const double after_s = monotonic_seconds() - start_s;
  const double sum_s =
      std::accumulate(totals.begin(), totals.end(), 0.0,
                      [](double sum, const PhaseTotal& total) { return sum + total.seconds; });
  EXPECT_GE(sum_s, before_s - 1e-9);
  EXPECT_LE(sum_s, after_s + 1e-9);
  EXPECT_GE(now(Phase::kSetUp).seconds, 1);
  EXPECT_EQ(now(Phase::kSetUp).calls, 1);
  EXPECT_EQ(now(Phase::kReduce).calls, 1);
  EXPECT_EQ(now(Phase::kStep).calls, 2);
  EXPECT_GE(now(Phase::kReduce).seconds, 0.002);
  EXPECT_GE(now(Phase::kStep).seconds, 0.006);
  EXPECT_NEAR(inclusive_s, now(Phase::kReduce).seconds + now(Phase::kStep).seconds, 1e-6);
  begin_phases(monotonic_seconds());
  EXPECT_EQ(now(Phase::kStep).calls, 0);
}

TEST(Scope, CountsInATotalWhatDoesNotCountElsewhere) {
  const SimulatedTime time;
  double draw_s = 0, comm_s = 3, message_s = 0;
  record_spans(true);
  {
    const Scope draw(Phase::kDraw, draw_s, comm_s);
    pass_time(5);
    const Scope message("bcast", -1, 64, &comm_s);
    const Scope total(message_s);
    pass_time(2);
  }
  const std::vector<Span> spans = take_spans();
  record_spans(false);
  EXPECT_NEAR(draw_s, 5, 0.02);
  EXPECT_NEAR(comm_s, 3 + 2, 0.02);
  EXPECT_NEAR(message_s, 2, 0.02);
  ASSERT_EQ(spans.size(), 2U);  // a total has no name
  EXPECT_STREQ(spans[0].name, "bcast");
  EXPECT_EQ(spans[0].bytes, 64);
  EXPECT_NEAR(spans[0].end_s - spans[0].start_s, 2, 0.02);
  EXPECT_STREQ(spans[1].name, "draw");
  EXPECT_NEAR(spans[1].end_s - spans[1].start_s, 7, 0.02);
}

void work_for(double seconds) {
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  while (std::clock() < end) {
  }
}

TEST(SimulatedTime, IsDeclaredWorkAndTheProcessorsTime) {
  pass_time(1000);
  EXPECT_EQ(simulated_seconds(), 0);
  const double before_s = run_seconds();
  EXPECT_NEAR(before_s, monotonic_seconds(), 100);
  {
    const SimulatedTime time;
    const double start_s = run_seconds();
    EXPECT_NEAR(start_s, before_s, 100);
    pass_time(1000);
    EXPECT_NEAR(run_seconds() - start_s, 1000, 0.02);
    EXPECT_NEAR(simulated_seconds(), 1000, 0.02);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // of another's work
    EXPECT_NEAR(simulated_seconds(), 1000, 0.04);
    work_for(0.06);
    EXPECT_NEAR(simulated_seconds(), 1000.06, 0.03);
    wait_until_simulated(500);
    EXPECT_NEAR(simulated_seconds(), 1000.06, 0.03);
    wait_until_simulated(2000);
    EXPECT_NEAR(simulated_seconds(), 2000, 0.02);
  }
  EXPECT_EQ(simulated_seconds(), 0);
  EXPECT_NEAR(run_seconds(), monotonic_seconds(), 100);
}

TEST(SimulatedTime, StandsStillButForWhatIsDeclared) {
  const DeclaredTime none;  // without simulation
  EXPECT_FALSE(time_is_declared());
  const SimulatedTime time;
  double inclusive_s = 0;
  begin_phases(run_seconds());
  {
    const Scope phase(Phase::kTraining, inclusive_s);
    const DeclaredTime declared;
    const double start_s = simulated_seconds();
    work_for(0.02);
    {
      const DeclaredTime nested;
      work_for(0.02);
    }
    EXPECT_TRUE(time_is_declared());
    EXPECT_EQ(simulated_seconds(), start_s);
    pass_time(7);
    EXPECT_EQ(simulated_seconds(), start_s + 7);
    {
      const OwnWork own;
      EXPECT_FALSE(time_is_declared());
      work_for(0.06);
    }
    const double worked_s = simulated_seconds();
    EXPECT_NEAR(worked_s, start_s + 7.06, 0.03);
    work_for(0.02);
    EXPECT_EQ(simulated_seconds(), worked_s);
  }
  EXPECT_NEAR(inclusive_s, 7.06, 0.03);
  EXPECT_NEAR(phase_totals()[static_cast<std::size_t>(Phase::kTraining)].seconds, inclusive_s,
              1e-6);
}

TEST(SimulatedTime, RecordsNoSpansOfWhatIsDeclared) {
  record_spans(true);
  {
    const SimulatedTime time;
    const Scope client("client", 3);
    const DeclaredTime turn;
    pass_time(5);
    const Scope message("bcast");
  }
  const std::vector<Span> spans = take_spans();
  record_spans(false);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].client, 3);
  EXPECT_NEAR(spans[0].end_s - spans[0].start_s, 5, 0.02);
}

TEST(EnergyMeter, AddsUpProcessorsAndTheirWraps) {
  const ScratchFolder folder;
  const auto write = [&](const std::string& domain, const std::string& name, double value) {
    std::filesystem::create_directories(folder.path() + "/" + domain);
    std::ofstream(folder.path() + "/" + domain + "/" + name) << value << "\n";
  };
  write("intel-rapl:0", "energy_uj", 5e6);
  write("intel-rapl:0", "max_energy_range_uj", 8e6);
  write("intel-rapl:0:0", "energy_uj", 1e6);  // a part of the first
  write("intel-rapl:1", "energy_uj", 1e6);
  EnergyMeter meter(folder.path());
  write("intel-rapl:0", "energy_uj", 7e6);
  write("intel-rapl:0:0", "energy_uj", 9e6);
  write("intel-rapl:1", "energy_uj", 4e6);
  EXPECT_NEAR(meter.joules().value(), 2 + 3, 1e-12);
  write("intel-rapl:0", "energy_uj", 1e6);
  EXPECT_NEAR(meter.joules().value(), 2 + 3 + (8 - 7) + 1, 1e-12);
  std::filesystem::remove_all(folder.path() + "/intel-rapl:1");
  EXPECT_FALSE(meter.joules());
  EXPECT_FALSE(EnergyMeter(folder.path() + "/nothing").joules());
}

}  // namespace
}  // namespace hanse
