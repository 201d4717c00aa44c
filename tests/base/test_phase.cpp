#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/energy.hpp"
#include "hanse/base/phase.hpp"
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
    const InPhase reduce(Phase::kReduce, inclusive_s);
    spend(0.002);
    for (int i = 0; i < 2; ++i) {
      const InPhase step(Phase::kStep);
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
