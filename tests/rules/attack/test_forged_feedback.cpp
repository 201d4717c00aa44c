// What samplers and rules hear of attackers.
#include <gtest/gtest.h>

#include "hanse/rules/attack/forged_feedback.hpp"
#include "rules/aggregation/rows.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;

// Notes what it hears.
class Listener final : public ClientSampler {
 public:
  explicit Listener(Numbers& heard) : ClientSampler(4, 4), heard_(heard), there_(4) {}
  Draw draw(int64_t, int64_t, RandomStream&) override { return {}; }
  Draw impose(int64_t, std::span<const int64_t>) override { return {}; }
  double probability(int64_t) const override { return 0.25; }
  void toggle(std::span<const int64_t>) override {}
  const ClientSet& available() const override { return there_; }
  void observe(const Draw&, const Feedback& feedback) override {
    heard_.clear();
    for (const auto& numbers : {feedback.a, feedback.losses, feedback.squares}) {
      heard_.insert(heard_.end(), numbers.begin(), numbers.end());
    }
  }
  void take_candidates(std::span<const int64_t>, std::span<const double> losses) override {
    heard_.assign(losses.begin(), losses.end());
  }

 private:
  Numbers& heard_;
  ClientSet there_;
};

TEST(ForgedFeedback, SamplersHearTenTimesTheTruth) {
  Numbers heard;
  const AttackOptions options{.first_round = 2, .last_round = 2, .feedback = 10};
  const auto sampler = forge_feedback(std::make_unique<Listener>(heard), options, {1, 3});
  const Draw draw{.clients = {3, 0, 1}, .counts = {1, 1, 1}};
  const Numbers a{1, 2, 3}, losses{4, 5, 6}, squares{7, 8, 9};
  RandomStream stream(1, Purpose::kSampling);
  for (int64_t round = 1; round <= 3; ++round) {
    sampler->draw(round, 3, stream);
    sampler->observe(draw, {.a = a, .losses = losses, .squares = squares});
    const Numbers lies{100, 2, 300, 40, 5, 60, 700, 8, 900};
    EXPECT_EQ(heard, round == 2 ? lies : (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9})) << round;
    sampler->take_candidates(Ids{1, 2}, Numbers{0.5, 0.5});
    EXPECT_EQ(heard, round == 2 ? (Numbers{5, 0.5}) : (Numbers{0.5, 0.5}));
  }
}

TEST(ForgedFeedback, RulesHearOtherLosses) {
  Numbers heard;
  auto rule = make_rule({.losses = true}, [&](const RoundReport& report) {
    heard.assign(report.losses.begin(), report.losses.end());
    heard.insert(heard.end(), report.norms.begin(), report.norms.end());
    return Mix{};
  });
  const auto deceived = forge_losses(std::move(rule), {.feedback = 0}, {2});
  EXPECT_TRUE(deceived->needs().losses);
  const Ids clients{2, 1};
  const Numbers losses{3, 4}, norms{5, 6};
  deceived->mix({.round = 1, .clients = clients, .losses = losses, .norms = norms});
  EXPECT_EQ(heard, (Numbers{0, 4, 5, 6}));  // the lengths of updates are measured
}

}  // namespace
}  // namespace hanse
