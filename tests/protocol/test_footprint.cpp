// What a protocol says that its rounds send, against what they do send.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/protocol/footprint.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/timed.hpp"
#include "protocol/bandit_ranks.hpp"
#include "protocol/small_online.hpp"
#include "protocol/tiny_training.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kStates = 5;
constexpr int64_t kControls = 7;

struct UnmovedClock final : Clock {
  double now_s() const override { return 0; }
};

// Moves the row a little and leaves every width that a round can have filled, at equal costs.
class WideUpdate final : public LocalUpdate {
 public:
  WideUpdate(bool has_states, bool has_controls, bool control_returns)
      : LocalUpdate(
            has_states ? std::vector<StateBlock>{{"numbers", kStates}} : std::vector<StateBlock>{},
            RoundSteps({{.steps = 1, .batch = 1}})),
        has_controls_(has_controls),
        control_returns_(control_returns) {}
  ClientOutcome train(const ClientTask& task) override {
    for (float& value : task.row) value += 0.01F * static_cast<float>(task.client + 1);
    for (float& value : task.control_change) value = 0.5F;
    return {.loss = 1, .samples = 1, .rate = 0.1};
  }
  int64_t control_width() const override { return has_controls_ ? kControls : 0; }
  bool control_returns() const override { return control_returns_; }

 private:
  bool has_controls_, control_returns_;
};

// The participants' plain mean, whatever it asks for.
class MeanOf final : public Aggregator {
 public:
  explicit MeanOf(const AggregatorNeeds& needs) : needs_(needs) {}
  AggregatorNeeds needs() const override { return needs_; }
  Mix mix(const RoundReport& report) override {
    const std::size_t k = report.clients.size();
    Mix mix{.coefficients = std::vector<double>(k, 1 / static_cast<double>(k))};
    if (needs_.extra_row != ExtraRow::kNone) mix.coefficients.push_back(0.5);
    if (!needs_.columns) return mix;
    mix.columns = {.rule = {}, .map = {}, .n = static_cast<int64_t>(k)};
    for (std::size_t i = 0; i < k * k; ++i) mix.columns->map.push_back(i % (k + 1) == 0);
    if (!needs_.own_columns) return mix;
    mix.columns->rule.kind = ColumnKind::kOwn;
    mix.columns->weights.assign(k, 1);
    return mix;
  }
  bool accepts(std::span<const double>, std::span<const double>) const override { return true; }

 private:
  AggregatorNeeds needs_;
};

// The first row.
class FirstRow final : public ColumnFunction {
 public:
  void begin(int64_t, const State&) override {}
  void step(std::span<const double> values, std::span<const double>,
            std::span<double> out) override {
    std::copy_n(values.begin(), out.size(), out.begin());
  }
};

struct FootprintCase {
  std::string name;
  AggregatorNeeds needs = {};
  bool has_states = false;
  bool has_controls = false;
  bool control_returns = true;
  bool everyone = false;  // takes part in every round
  bool regret = false;
  bool apart = false;  // every rank has a host of its own
  ServerRole role = ServerRole::kAuto;
  CommOptions comm = {};
  int64_t candidates = 0;
  bool squares = false;
};

std::vector<FootprintCase> footprint_cases() {
  return {
      {.name = "exact"},
      {.name = "fast", .comm = {.reduction = Reduction::kFast}},
      {.name = "planned", .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "dedicated", .role = ServerRole::kDedicated},
      {.name = "served", .apart = true},
      {.name = "served losses", .needs = {.losses = true}, .apart = true},
      {.name = "shared hosts", .apart = true, .role = ServerRole::kShared},
      {.name = "losses", .needs = {.losses = true}},
      {.name = "trials", .needs = {.losses = true, .trials = 2}},
      {.name = "gram", .needs = {.gram = true}, .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "gram, losses, rates, trials",
       .needs = {.losses = true, .gram = true, .rates = true, .trials = 1},
       .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "own row",
       .needs = {.gram = true, .extra_row = ExtraRow::kLastStep},
       .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "columns",
       .needs = {.norms = true, .late = true, .columns = true, .rejects = true},
       .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "own columns",
       .needs =
           {.norms = true, .late = true, .columns = true, .own_columns = true, .rejects = true},
       .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "columns, gram",
       .needs = {.gram = true, .columns = true},
       .comm = {.dispatch = AskedDispatch::kPlanned}},
      {.name = "signs", .needs = {.sign_share = 0.3}, .everyone = true},
      {.name = "signs, losses", .needs = {.losses = true, .sign_share = 0.3}, .everyone = true},
      {.name = "controls", .has_states = true, .has_controls = true, .everyone = true},
      {.name = "controls, fast",
       .has_controls = true,
       .comm = {.reduction = Reduction::kFast, .dispatch = AskedDispatch::kPlanned}},
      {.name = "controls that stay", .has_controls = true, .control_returns = false},
      {.name = "states", .has_states = true, .everyone = true},
      {.name = "regret", .regret = true},
      {.name = "regret, controls", .has_controls = true, .regret = true},
      {.name = "candidates", .candidates = 8},
      {.name = "candidates, losses", .needs = {.losses = true}, .candidates = 7},
      {.name = "served candidates", .apart = true, .candidates = 8},
      {.name = "candidates, controls", .has_controls = true, .candidates = 8},
      {.name = "squares", .squares = true},
      {.name = "trials, controls", .needs = {.losses = true, .trials = 1}, .has_controls = true}};
}

struct Measured : TrainerFixture<TinyModel, WideUpdate, MeanOf> {
  Measured(Communicator& all, const FootprintCase& c, int64_t participants)
      : TrainerFixture(
            all, [](Communicator& local) { return tiny_federation(local); }, c.apart) {
    model = std::make_unique<TinyModel>();
    update = std::make_unique<WideUpdate>(c.has_states, c.has_controls, c.control_returns);
    aggregator = std::make_unique<MeanOf>(c.needs);
    if (c.needs.own_columns) own_columns = std::make_unique<FirstRow>();
    sampler =
        c.everyone ? make_full_sampler(kClients) : make_uniform_sampler(kClients, participants);
    if (c.candidates > 0) {
      const std::vector<double> samples(kClients, 1.0);
      sampler = make_power_of_choice_sampler(samples, participants, c.candidates);
    }
    settings.seed = kSeed;
    settings.squares = c.squares;
    settings.max_participants = participants;
    settings.server.role = c.role;
    settings.comm = c.comm;
    settings.regret = c.regret;
    static const UnmovedClock clock;
    settings.clock = &clock;
    start();
  }
};

FederatedFacts facts_of(const FootprintCase& c, const Measured& one, int64_t participants) {
  return {.clients = kClients,
          .participants = static_cast<double>(participants),
          .role = c.role,
          .exact = c.comm.reduction == Reduction::kExact,
          .planned = c.comm.dispatch == AskedDispatch::kPlanned,
          .all_clients_first = c.regret,
          .candidates = static_cast<double>(c.candidates),
          .squares = c.squares,
          .needs = c.needs,
          .parts = row_parts(one.model->layout(), c.needs.layers),
          .n_params = kParams,
          .state_width =
              one.update->state_width() + width_of(rule_state_blocks(c.needs, one.model->layout())),
          .control_width = one.update->control_width(),
          .control_returns = c.has_controls && c.control_returns};
}

bool keeps_rows(const AggregatorNeeds& needs) { return needs.gram || needs.columns; }

// The first round sends the initial model beside the one behind it. In it costs are in samples,
// equal ones, so that the ranks get as many participants each, on which inner products depend;
// later ones go by measured times, which are 0 here.
TEST(Footprint, FederatedRoundsSendAsMuch) {
  for (const FootprintCase& c : footprint_cases()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(c.name + " on " + std::to_string(ranks));
      const int64_t participants = c.everyone                          ? kClients
                                   : keeps_rows(c.needs) && ranks == 4 ? 8
                                                                       : 6;
      run_threads(ranks, [&](Communicator& comm) {
        Measured one(comm, c, participants);
        const RoundFootprint footprint =
            federated_footprint(facts_of(c, one, participants), ranks, c.apart ? ranks : 1);
        const double model = sizeof(float) * kParams * (ranks - 1);
        for (int64_t round = 1; round <= 3; ++round) {
          const RoundRecord record = one.trainer->round(false);
          ASSERT_EQ(one.trainer->failure(), nullptr);
          if (comm.rank() != 0 || (round == 1) != keeps_rows(c.needs)) continue;
          const double bytes = footprint.bytes_sent() + (round == 1 ? model : 0);
          // The rule's own row lies on rank 0, and not a part of it on each rank.
          const bool even = c.needs.extra_row == ExtraRow::kNone;
          EXPECT_NEAR(static_cast<double>(record.bytes_sent), bytes, even ? 0 : 0.01 * bytes)
              << "round " << round;
        }
      });
    }
  }
}

TEST(Footprint, FederatedRowsAndMessages) {
  FederatedFacts facts{.clients = 10, .participants = 6, .n_params = 1000, .state_width = 50};
  RoundFootprint one = federated_footprint(facts, 1, 1);
  EXPECT_EQ(one.bytes_sent(), 0);
  EXPECT_EQ(one.messages(), 0);
  EXPECT_EQ(one.memory_bytes_of("model rows"), 12000);
  EXPECT_EQ(one.memory_bytes_of("sums"), 8000);
  EXPECT_EQ(one.memory_bytes_of("client states"), 4 * 50 * 10);
  EXPECT_EQ(one.memory_bytes_of("kept updates"), 0);
  facts.exact = false;
  facts.needs.gram = true;
  facts.parts = {{0, 1000}};
  const RoundFootprint two = federated_footprint(facts, 3, 3);  // two of them train
  EXPECT_EQ(two.memory_bytes_of("sums"), 4000);
  EXPECT_EQ(two.memory_bytes_of("client states"), 4 * 50 * 5);
  EXPECT_GE(two.memory_bytes_of("kept updates"), 4 * 1000 * 3);
  EXPECT_EQ(two.sent_bytes_of("model"), 2 * 4000);
  EXPECT_EQ(two.sent_bytes_of("sum"), 2 * 4000);
  EXPECT_GT(two.operations(), 5);
  EXPECT_GT(two.messages(), 2 * 5);
}

// A laptop can plan a model of 10^12 parameters on 10^5 ranks.
TEST(Footprint, AllocatesNothing) {
  const FederatedFacts facts{.clients = 1'000'000,
                             .participants = 1e5,
                             .n_params = 1'000'000'000'000,
                             .state_width = 1'000'000'000'000};
  const RoundFootprint footprint = federated_footprint(facts, 100'000, 1000);
  EXPECT_GT(footprint.bytes_sent(), 12e12 * 99'999);
}

TEST(Footprint, OnlineRoundsSendAsMuch) {
  for (const OnlineCase& c : online_cases()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(c.name + " on " + std::to_string(ranks));
      run_threads(ranks, [&](Communicator& comm) {
        OnlineRun run(c, comm);
        run.trainer->initialize_model();
        const RoundFootprint footprint = run.trainer->footprint(ranks);
        for (int64_t round = 1; round <= 2; ++round) {
          const RoundRecord record = run.trainer->round(false);
          if (comm.rank() != 0) continue;
          EXPECT_EQ(static_cast<double>(record.bytes_sent), footprint.bytes_sent());
        }
      });
    }
  }
}

// Where clients synchronize, those that have pulled since the last time send a row each.
TEST(Footprint, BanditRoundsSendAsMuch) {
  constexpr int64_t kBandits = 2;
  const TestBandit bandit = stream_bandit(7, 15, 9, 5);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  for (const auto& [gamma, model] : {std::pair{kNever, RewardModel::kPoints},
                                     {2.0, RewardModel::kPoints},
                                     {0.0, RewardModel::kPoints},
                                     {0.0, RewardModel::kKernelOfPoints}}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(std::to_string(gamma) + " on " + std::to_string(ranks));
      run_threads(ranks, [&](Communicator& comm) {
        BanditSetup setup = setup_of(bandit, {.lambda = 0.4, .gamma = gamma, .sigma = 0.3});
        setup.model = model;
        BanditProtocol protocol(std::vector(kBandits, setup), comm);
        protocol.initialize_model();
        const auto bytes = [&](double synchronizations) {
          return protocol.footprint(ranks, kBandits * synchronizations).bytes_sent();
        };
        double before = 0;
        for (int64_t round = 1; round <= 15; ++round) {
          const auto sent = static_cast<double>(protocol.round(false).bytes_sent);
          if (comm.rank() != 0) continue;
          const double all = metric(protocol, "syncs");
          if (all == before) {
            EXPECT_EQ(sent, bytes(0));
          }
          EXPECT_GE(sent, bytes(0));
          EXPECT_LE(sent, bytes(all - before));
          before = all;
        }
        if (comm.rank() == 0) {
          EXPECT_EQ(before > 0, !std::isinf(gamma));
        }
      });
    }
  }
}

}  // namespace
}  // namespace hanse
