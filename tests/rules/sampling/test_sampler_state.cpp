// What samplers keep: states that resume bit for bit, and little memory.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "rules/sampling/sampler_roster.hpp"

namespace hanse {
namespace {

// Those who come or go before a round: the sixth part of the clients, in turns.
std::vector<int64_t> changes_of(int64_t clients, int64_t round) {
  std::vector<int64_t> changed;
  for (int64_t m = round % 6; m < clients; m += 6) changed.push_back(m);
  return changed;
}

std::vector<int64_t> absent_after(int64_t clients, int64_t rounds) {
  std::vector<bool> away(static_cast<std::size_t>(clients));
  for (int64_t round = 1; round <= rounds; ++round) {
    for (const int64_t m : changes_of(clients, round)) away[static_cast<std::size_t>(m)].flip();
  }
  std::vector<int64_t> absent;
  for (int64_t m = 0; m < clients; ++m) {
    if (away[static_cast<std::size_t>(m)]) absent.push_back(m);
  }
  return absent;
}

// Each client is drawn in runs of rounds, so that the order of the probabilities changes late and
// by one client at a time.
void impose_one(ClientSampler& sampler, int64_t round, bool replacement) {
  const auto m = sampler.clients();
  std::vector<int64_t> draws;
  for (int64_t k = 0; k < sampler.per_round(); ++k) {
    draws.push_back((round / 7 + (replacement ? 0 : k)) % m);
  }
  if (sampler.needs_all_clients()) sampler.observe_all(round_gradients(m, round));
  const Draw draw = sampler.impose(sampler.per_round(), draws);
  const auto all = round_gradients(m, round);
  std::vector<double> a;
  for (const int64_t client : draw.clients) a.push_back(all[static_cast<std::size_t>(client)]);
  sampler.observe(draw, {.a = a, .losses = a});
}

void expect_same_future(ClientSampler& one, ClientSampler& other, int64_t first, bool changes) {
  for (int64_t round = first; round < first + 25; ++round) {
    if (changes) one.toggle(changes_of(one.clients(), round));
    if (changes) other.toggle(changes_of(one.clients(), round));
    const Draw expected = play_round(one, round);
    const Draw draw = play_round(other, round);
    ASSERT_EQ(draw.clients, expected.clients);
    ASSERT_EQ(draw.counts, expected.counts);
    ASSERT_EQ(draw.probabilities, expected.probabilities);
    ASSERT_EQ(draw.weights, expected.weights);
    ASSERT_EQ(probabilities_of(other), probabilities_of(one));
    ASSERT_EQ(other.expert_weights(), one.expert_weights());
  }
}

// Saved after `rounds`, loaded into a sampler that is fresh and into one with another past.
void expect_resumes(const SamplerCase& kind, int64_t clients, int64_t per_round, int64_t rounds,
                    bool changes, bool imposed) {
  SCOPED_TRACE(kind.name + ", " + std::to_string(clients) + " clients, after " +
               std::to_string(rounds) + (changes ? ", some away" : "") +
               (imposed ? ", imposed" : ""));
  for (const bool used : {false, true}) {
    const auto going = kind.make(clients, per_round);
    for (int64_t round = 1; round <= rounds; ++round) {
      if (changes) going->toggle(changes_of(clients, round));
      if (imposed) impose_one(*going, round, kind.replacement);
      if (!imposed) play_round(*going, round);
    }
    State state;
    going->save(state);
    const auto resumed = kind.make(clients, per_round);
    for (int64_t round = 50; used && round < 55; ++round) {
      play_round(*resumed, round);
      resumed->toggle(changes_of(clients, round));
    }
    resumed->load(state);
    if (changes) resumed->toggle(absent_after(clients, rounds));
    expect_same_future(*going, *resumed, rounds + 1, changes);
  }
}

TEST(SamplerState, ResumesBitForBit) {
  for (const SamplerCase& kind : sampler_roster()) {
    for (const auto& [clients, per_round] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 2}, {67, 3}, {300, 7}}) {
      for (const int64_t rounds : {0, 1, 6, 21}) {
        for (const bool changes : {false, true}) {
          expect_resumes(kind, clients, per_round, rounds, changes, false);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(SamplerState, ResumesAfterTheSameClientsWereDrawnManyTimes) {
  for (const SamplerCase& kind : sampler_roster()) {
    if (kind.name == "full") continue;
    for (const int64_t rounds : {5, 40}) expect_resumes(kind, 23, 2, rounds, false, true);
  }
}

TEST(SamplerState, ResumesBeforeTheBoundIsKnown) {
  const auto fresh = make_osmd_sampler({.horizon = 10}, 5, 2);
  State state;
  fresh->save(state);
  const auto used = make_osmd_sampler({.horizon = 10}, 5, 2);
  play_round(*used, 1);
  EXPECT_FALSE(used->needs_all_clients());
  used->load(state);
  EXPECT_TRUE(used->needs_all_clients());
}

// Peak resident memory so far, in MB.
int64_t peak_memory_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes / 1024;
  }
  return -1;
}

// A number a client would be 800 MB. Without replacement and with people coming and going, too.
TEST(SamplerState, HundredMillionClientsNeedNoNumberEach) {
  constexpr int64_t kClients = 100000000;
  const int64_t before = peak_memory_mb();
  ASSERT_GT(before, 0);
  for (const OsmdKind kind : {OsmdKind::kAdaptive, OsmdKind::kDoubling}) {
    LearningOptions options{.kind = kind, .replacement = kind == OsmdKind::kAdaptive};
    options.bound = BoundSource::kGiven;
    options.a_max = 1e-14;
    options.rate_scale = 100;
    options.horizon = 200;
    const auto sampler = make_osmd_sampler(options, kClients, 10);
    const auto uniform = make_uniform_sampler(kClients, 10);
    for (int64_t round = 1; round <= 200; ++round) {
      sampler->toggle(std::vector<int64_t>{round, kClients - round, 40 * round * round});
      uniform->toggle(std::vector<int64_t>{round, kClients - round});
      const Draw draw = draw_round(*sampler, round);
      ASSERT_EQ(draw.draws(), 10);
      ASSERT_EQ(draw_round(*uniform, round).size(), 10U);
      std::vector<double> a(draw.size(), 1e-14);
      sampler->observe(draw, {.a = a, .losses = a});
    }
  }
  EXPECT_LT(peak_memory_mb() - before, 200);
}

}  // namespace
}  // namespace hanse
