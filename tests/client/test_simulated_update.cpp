#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/client/simulated_update.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {
namespace {

// It would be trained, if it were not simulated.
class Trained final : public LocalUpdate {
 public:
  Trained(bool returns, bool direction, const ClientOptions& options)
      : LocalUpdate({{"kept", 4}}, RoundSteps(options)), returns_(returns), direction_(direction) {}
  ClientOutcome train(const ClientTask&) override { throw std::logic_error("trains"); }
  int64_t control_width() const override { return 3; }
  bool control_returns() const override { return returns_; }
  bool sends_direction() const override { return direction_; }

 private:
  bool returns_, direction_;
};

struct Sent {
  std::vector<float> row, change;
  ClientOutcome outcome;
  bool operator==(const Sent& other) const {
    return row == other.row && change == other.change && outcome.loss == other.outcome.loss;
  }
};

struct Clients {
  Sent train(int64_t client, int64_t round, uint64_t seed = 1, float from = 2) {
    Sent sent{.row = std::vector<float>(1001, from), .change = std::vector<float>(3)};
    sent.outcome = update->train({.client = client,
                                  .round = round,
                                  .seed = seed,
                                  .row = sent.row,
                                  .control_change = sent.change});
    return sent;
  }
  void make(bool returns = true, bool direction = false) {
    update = make_simulated_update(std::make_unique<Trained>(returns, direction, options),
                                   federation, 10);
  }

  std::unique_ptr<Communicator> host = make_single_communicator();
  Federation federation = make_federation(*host, rivals({5, 20}));
  ClientOptions options{{.epochs = 2, .batch = 4, .drop_last = true}};
  std::unique_ptr<LocalUpdate> update;
};

TEST(SimulatedUpdate, IsAFunctionOfSeedRoundAndClient) {
  Clients clients;
  clients.make();
  const Sent sent = clients.train(1, 3);
  EXPECT_EQ(clients.train(1, 3), sent);
  for (const Sent& other : {clients.train(0, 3), clients.train(1, 4), clients.train(1, 3, 2)}) {
    int same = 0;
    for (std::size_t i = 0; i < sent.row.size(); ++i) same += sent.row[i] == other.row[i];
    EXPECT_LT(same, 20);
  }
  double squares = 0;
  for (const float x : sent.row) {
    EXPECT_LE(std::abs(x - 2), 0x1p-10);
    squares += (static_cast<double>(x) - 2) * (static_cast<double>(x) - 2);
  }
  EXPECT_NEAR(squares / 1001, 0x1p-20 / 3, 0x1p-20 / 20);  // of a uniform number
  EXPECT_GE(sent.outcome.loss, 1);
  EXPECT_LT(sent.outcome.loss, 2);
  EXPECT_EQ(clients.update->state_width(), 4);
  EXPECT_EQ(clients.update->control_width(), 3);
}

TEST(SimulatedUpdate, TakesTheTimeOfTheSamplesThatItWouldVisit) {
  Clients clients;
  clients.make();
  const SimulatedTime time;
  EXPECT_EQ(clients.train(0, 1).outcome.samples, 8);
  EXPECT_NEAR(simulated_seconds(), 80, 0.5);
  EXPECT_EQ(clients.train(1, 1).outcome.samples, 40);
  EXPECT_NEAR(simulated_seconds(), 480, 0.5);
}

TEST(SimulatedUpdate, SendsWhatItsKindSends) {
  Clients clients;
  clients.make(false, true);
  const Sent direction = clients.train(1, 1);
  for (const float x : direction.row) EXPECT_LE(std::abs(x), 0x1p-10);
  EXPECT_EQ(direction.change, (std::vector<float>{1, 1, 1}));
  EXPECT_GT(direction.outcome.rate, 0);
  clients.make(true, false);
  for (const float x : clients.train(1, 1).change) EXPECT_LT(std::abs(x), 0x1p-9);
}

}  // namespace
}  // namespace hanse
