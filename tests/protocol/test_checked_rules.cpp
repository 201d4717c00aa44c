// Rules that are not pure are caught beside a run, and the others go on as they are.
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/protocol/checked_rules.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/tiny_training.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// What a rule does wrong.
enum class Fault { kNone, kCounts, kForgets, kLosesDigits, kRefusesToLoad, kShared };

int64_t calls = 0;  // of all rules

// Weighs the first participant by the rounds that it has seen.
class Counting final : public Aggregator {
 public:
  explicit Counting(Fault fault) : fault_(fault) {}
  Mix mix(const RoundReport& report) override {
    ++rounds_;
    ++unsaved_;
    ++calls;
    third_ += 1.0 / 3;
    std::vector<double> weights(report.clients.size(), 0.1);
    weights[0] = 1.0 / static_cast<double>(rounds_);
    if (fault_ == Fault::kCounts) weights[1] = 0.5 * static_cast<double>(unsaved_);
    if (fault_ == Fault::kShared) weights[1] = static_cast<double>(calls);
    return {weights};
  }

 private:
  void visit(StateFields& fields) override {
    fields.one("rounds", rounds_);
    if (fault_ == Fault::kForgets && fields.loads()) rounds_ = 0;
    if (fault_ == Fault::kRefusesToLoad && fields.loads()) throw IoError("not today");
    fields.one("third", third_);
    if (fault_ == Fault::kLosesDigits && fields.loads()) third_ = static_cast<float>(third_);
  }

  Fault fault_;
  int64_t rounds_ = 0;
  int64_t unsaved_ = 0;
  double third_ = 0;
};

void mix_rounds(Fault fault, int64_t rounds) {
  const auto round = std::make_shared<int64_t>(0);
  const auto rule = checked_aggregator(
      "aggregator.kind = counting", [=] { return std::make_unique<Counting>(fault); }, round);
  const std::vector<int64_t> clients{3, 1};
  const std::vector<double> even{0.5, 0.5};
  for (*round = 1; *round <= rounds; ++*round) {
    const Mix mix = rule->mix(
        {.round = *round, .clients = clients, .lambda = even, .draw_weights = even, .losses = {}});
    EXPECT_EQ(mix.coefficients[0], 1.0 / static_cast<double>(*round));
  }
}

TEST(CheckedRules, AnImpureAggregatorIsCaughtWithTheRoundAndTheNumber) {
  mix_rounds(Fault::kNone, 30);
  const auto caught = [](Fault fault, std::initializer_list<std::string> parts) {
    expect_error<Error>([&] { mix_rounds(fault, 30); }, parts);
  };
  caught(Fault::kCounts, {"the rule is not pure: in round 2 coefficients[1] is 1, but 0.5 from its "
                          "saved state",
                          "(aggregator.kind = counting)", "hint: a rule keeps what it learns"});
  caught(Fault::kForgets, {"in round 2 coefficients[0] is 0.5, but 1 from"});
  caught(Fault::kShared, {"in round 1 coefficients[1] is"});
  // A difference that no decision shows yet is seen in the state.
  caught(Fault::kLosesDigits,
         {"in round 2 state third[0] is 0.6666666666666666, but 0.66666667660"});
  caught(Fault::kRefusesToLoad, {"in round 1 it fails from its saved state: not today"});
}

// Sends what it has counted, or sums columns with it.
class Remembering final : public Attack, public ColumnFunction {
 public:
  explicit Remembering(Fault fault) : fault_(fault) {}
  AttackRow decide(const AttackRound&) override {
    ++rounds_;
    ++unsaved_;
    const auto counted = static_cast<double>(fault_ == Fault::kCounts ? unsaved_ : rounds_);
    return {.coefficients = {counted}, .strength = 0};
  }
  void begin(int64_t, const State& state) override { Stateful::load(state); }
  void step(std::span<const double> values, std::span<const double>,
            std::span<double> out) override {
    ++unsaved_;
    for (std::size_t j = 0; j < out.size(); ++j) {
      out[j] = values[j] + static_cast<double>(fault_ == Fault::kCounts ? unsaved_ : rounds_);
    }
  }

 private:
  void visit(StateFields& fields) override { fields.one("rounds", rounds_); }

  Fault fault_;
  int64_t rounds_ = 0, unsaved_ = 0;
};

TEST(CheckedRules, AnImpureAttackIsCaught) {
  const auto attack = [](Fault fault) {
    const auto made = checked_attack("attack.kind = remembering",
                                     [=] { return std::make_unique<Remembering>(fault); });
    for (int64_t round = 1; round <= 5; ++round) {
      EXPECT_EQ(made->decide({.round = round}).coefficients[0], static_cast<double>(round));
    }
  };
  attack(Fault::kNone);
  expect_error<Error>([&] { attack(Fault::kCounts); },
                      {"in round 2 coefficients[0] is 2, but 1 from its saved state",
                       "(attack.kind = remembering)"});
}

TEST(CheckedRules, ColumnsThatDependOnBlocksBeforeAreCaught) {
  const auto columns = [](Fault fault) {
    const auto made = checked_columns("aggregator.kind = remembering",
                                      [=] { return std::make_unique<Remembering>(fault); });
    State state;
    state.put("rounds", int64_t{7});
    made->begin(3, state);
    const std::vector<double> values{1, 2}, weights{1};
    std::vector<double> out(2);
    for (int block = 0; block < 3; ++block) {
      made->step(values, weights, out);
      EXPECT_EQ(out, fault == Fault::kNone ? (std::vector<double>{8, 9}) : out);
    }
  };
  columns(Fault::kNone);
  expect_error<Error>([&] { columns(Fault::kCounts); },
                      {"in round 3 columns[0] is 3, but 2 from its saved state",
                       "(aggregator.kind = remembering)"});
}

// Draws the client that follows the last one, or what the fault makes of that.
class Turns final : public ClientSampler {
 public:
  explicit Turns(Fault fault) : ClientSampler(5, 1), fault_(fault), there_(5) {}
  Draw draw(int64_t, int64_t, RandomStream& stream) override {
    const int64_t turn = (fault_ == Fault::kCounts ? unsaved_ : turn_) + stream.below(2);
    int64_t client = turn % clients();
    while (!there_.contains(client)) client = (client + 1) % clients();
    ++unsaved_;
    return {{client}, {1}, {0.2}, {1.0}};
  }
  Draw impose(int64_t, std::span<const int64_t> draws) override {
    ++unsaved_;
    return {{draws[0]}, {1}, {0.2}, {fault_ == Fault::kCounts ? unsaved_ / 4.0 : 1.0}};
  }
  double probability(int64_t) const override { return 0.2; }
  void observe(const Draw& draw, const Feedback& feedback) override {
    turn_ = draw.clients[0] + static_cast<int64_t>(feedback.a[0]);
  }
  std::vector<int64_t> candidates(int64_t, int64_t, RandomStream&) override {
    return {(fault_ == Fault::kForgets ? unsaved_ : turn_) % clients()};
  }
  void take_candidates(std::span<const int64_t> named, std::span<const double>) override {
    turn_ += named[0];
  }
  void observe_late(std::span<const int64_t> late, std::span<const double>) override {
    turn_ += late[0];
  }
  void toggle(std::span<const int64_t> clients) override {
    for (const int64_t client : clients) there_.toggle(client);
  }
  const ClientSet& available() const override { return there_; }

 private:
  void visit(StateFields& fields) override { fields.one("turn", turn_); }

  Fault fault_;
  ClientSet there_;
  int64_t turn_ = 0, unsaved_ = 0;
};

void draw_rounds(Fault fault) {
  const auto round = std::make_shared<int64_t>(0);
  const auto sampler = checked_sampler(
      "sampler.kind = turns", [=] { return std::make_unique<Turns>(fault); }, round);
  for (int64_t t = 1; t <= 20; ++t) {
    if (t % 4 == 1) sampler->toggle(std::vector<int64_t>{t % 3, 4});
    RandomStream stream(1, Purpose::kSampling, static_cast<uint64_t>(t));
    const std::vector<int64_t> late{t % 5};
    const std::vector<double> a{2};
    if (t % 3 > 0) sampler->take_candidates(sampler->candidates(t, 1, stream), a);
    const Draw draw = sampler->draw(t, sampler->per_round(), stream);
    EXPECT_EQ(*round, t);
    if (t % 2 == 0) sampler->observe_late(late, a);
    EXPECT_TRUE(sampler->available().contains(draw.clients[0]));
    sampler->observe(draw, {.a = a, .losses = a});
    if (t % 2 == 1) sampler->observe_late(late, a);
  }
}

TEST(CheckedRules, AnImpureSamplerIsCaught) {
  draw_rounds(Fault::kNone);
  expect_error<Error>([] { draw_rounds(Fault::kCounts); },
                      {"the rule is not pure: in round ", "clients[0] is ",
                       " from its saved state (sampler.kind = turns)"});
  expect_error<Error>([] { draw_rounds(Fault::kForgets); }, {"candidates[0] is "});
}

TEST(CheckedRules, AnImposedDrawIsCompared) {
  const auto sampler = checked_sampler(
      "sampler.kind = turns", [] { return std::make_unique<Turns>(Fault::kCounts); },
      std::make_shared<int64_t>(0));
  const std::vector<int64_t> draws{3};
  const std::vector<double> a{2};
  sampler->observe(sampler->impose(1, draws), {.a = a, .losses = a});
  expect_error<Error>([&] { sampler->impose(1, draws); }, {"weights[0] is 0.5, but 0.25"});
}

// A velocity that is not saved, or is.
class Velocity final : public ServerOptimizer {
 public:
  explicit Velocity(Fault fault) : fault_(fault), velocity_(6) {}
  void step(std::span<float> theta, std::span<const float> update, double lr,
            int64_t begin) override {
    for (std::size_t i = 0; i < theta.size(); ++i) {
      float& v = velocity_[static_cast<std::size_t>(begin) + i];
      v = 0.5F * v + update[i];
      theta[i] += static_cast<float>(lr) * v;
    }
  }

 private:
  void visit(StateFields& fields) override {
    if (fault_ != Fault::kForgets) fields.fixed("velocity", velocity_);
  }
  Fault fault_;
  std::vector<float> velocity_;
};

// In parts, the later ones first.
void step_rounds(Fault fault) {
  const auto round = std::make_shared<int64_t>(0);
  const auto optimizer = checked_optimizer(
      "server.optimizer = velocity", [=] { return std::make_unique<Velocity>(fault); }, 6, round);
  const auto plain = std::make_unique<Velocity>(fault);
  std::vector<float> theta(6), expected(6);
  for (*round = 1; *round <= 5; ++*round) {
    const std::vector<float> update{1, 2, 3, 4, 5, 6};
    plain->step(expected, update, 0.1, 0);
    optimizer->step(std::span(theta).subspan(4), std::span(update).subspan(4), 0.1, 4);
    optimizer->step(std::span(theta).first(4), std::span(update).first(4), 0.1, 0);
    EXPECT_EQ(theta, expected);
  }
}

TEST(CheckedRules, AnImpureOptimizerIsCaught) {
  step_rounds(Fault::kNone);
  expect_error<Error>([] { step_rounds(Fault::kForgets); },
                      {"in round 2 behind parameter 4, the model[0] is 1.25, but 1 from",
                       "(server.optimizer = velocity)"});
}

// The state of a run is the same with the check and without it, so that either resumes the other.
TEST(CheckedRules, TheSavedStateIsThatOfTheRule) {
  const auto round = std::make_shared<int64_t>(1);
  const auto make = [] { return std::make_unique<Velocity>(Fault::kNone); };
  const auto checked = checked_optimizer("o", make, 6, round);
  const auto plain = make();
  std::vector<float> one(6), other(6);
  const std::vector<float> update(6, 1);
  checked->step(one, update, 1, 0);
  plain->step(other, update, 1, 0);
  State mine, theirs;
  checked->save(mine);
  plain->save(theirs);
  EXPECT_EQ(mine.arrays(), theirs.arrays());
  checked->load(State(mine));
  checked->step(one, update, 1, 0);
  plain->step(other, update, 1, 0);
  EXPECT_EQ(one, other);
}

// Steps no further than a first round.
struct Tiring final : ServerOptimizer {
  void step(std::span<float>, std::span<const float>, double, int64_t) override {
    if (++steps > 1) throw Error("no further");
  }
  int64_t steps = 0;
};

// What a rule of rank 0 refuses when training is over fails the round, as any other failure.
TEST(CheckedRules, AnErrorBehindTheTrainingFailsTheRound) {
  for (const int ranks : {1, 3}) {
    run_threads(ranks, [](Communicator& comm) {
      TinyTraining t(comm, {.apart = true});
      t.optimizer = std::make_unique<Tiring>();
      t.start();
      EXPECT_FALSE(t.trainer->round(false).failed);
      const bool failed = t.trainer->round(false).failed;
      EXPECT_EQ(failed, comm.rank() == 0);  // the run tells the others
      EXPECT_EQ(t.trainer->failure() != nullptr, comm.rank() == 0);
    });
  }
}

}  // namespace
}  // namespace hanse
