// Tensors that stay with the client.
#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/passes.hpp"
#include "hanse/client/personal.hpp"
#include "support/errors.hpp"
#include "support/updates.hpp"

namespace hanse {
namespace {

ParameterLayout four_tensors() {
  ParameterLayout layout;
  layout.add("conv.weight", {3, 2}, 2);
  layout.add("norm.weight", {2}, 2);
  layout.add("norm.bias", {2}, 2);
  layout.add("fc.weight", {5}, 2);
  return layout;
}

std::vector<std::pair<int64_t, int64_t>> borders(const std::vector<std::string>& patterns) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const RowPart& part : personal_parts(four_tensors(), patterns)) {
    found.emplace_back(part.begin, part.end);
  }
  return found;
}

TEST(PersonalParts, AreThoseOfMatchingNamesJoined) {
  using Borders = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(borders({"fc.*"}), (Borders{{10, 15}}));
  EXPECT_EQ(borders({"*norm*"}), (Borders{{6, 10}}));
  EXPECT_EQ(borders({"*.weight"}), (Borders{{0, 8}, {10, 15}}));
  EXPECT_EQ(borders({"fc.weight", "conv.?eight", "*.weight"}), (Borders{{0, 8}, {10, 15}}));
  EXPECT_EQ(borders({"fc*", "norm.bias"}), (Borders{{8, 15}}));
}

TEST(PersonalParts, RefuseWhatMatchesNothingOrEverything) {
  expect_error<InvalidArgument>(
      [] {
        borders({"fc.*", "head.*"});
      },
      {"'head.*'", "client.personal", "conv.weight, norm.weight"});
  expect_error<InvalidArgument>([] { borders({"fc"}); }, {"'fc'"});  // whole names
  expect_error<InvalidArgument>(
      [] {
        borders({"*.weight", "*.bias"});
      },
      {"all tensors", "client.personal", "run.protocol = local"});
}

// Entries 0 and 2 of three are the client's own.
const std::vector<RowPart> kOwn{{0, 1}, {2, 3}};

// Over rounds with other received models: the row that comes back has the received values at the
// own entries; behind it the client trained the received body with the head of its last round.
void expect_trained_together(ClientOptions options) {
  const Regression r(random_clients());
  const auto plain = sgd_or_prox(options, r.federation, *r.model);
  const auto mine = make_personal(sgd_or_prox(options, r.federation, *r.model), kOwn);
  EXPECT_EQ(mine->state_width(), 3);
  const Row received[] = {{1, -2, 0.5}, {0, 3, -1}, {-2, 0.25, 4}};
  Row head{1, 0.5};  // of the first received model
  Row state(3);
  for (int64_t round = 1; round <= 3; ++round) {
    const Row& w = received[round - 1];
    OneRound whole({head[0], w[1], head[1]});
    whole.train(*plain, 0, round);
    OneRound split(w, 3);
    split.state = state;
    Row starts = w;
    mine->receive(state, starts);
    EXPECT_EQ(starts, (Row{head[0], w[1], head[1]}));
    split.train(*mine, 0, round);
    EXPECT_EQ(split.row, (Row{w[0], whole.row[1], w[2]}));
    EXPECT_EQ(split.outcome.loss, whole.outcome.loss);
    head = {whole.row[0], whole.row[2]};
    state = split.state;
    EXPECT_EQ(state, (Row{head[0], head[1], 1}));
  }
  OneRound asks({7, 8, 9}, 3);
  asks.state = state;
  mine->own_model(asks.task(0, 4));
  EXPECT_EQ(asks.row, (Row{head[0], 8, head[1]}));
}

TEST(Personal, BodyAndHeadTrainTogether) {
  expect_trained_together(
      {{.epochs = 2, .batch = 2}, {.lr = 0.05, .momentum = 0.5}, {.kind = "sgd"}});
  expect_trained_together({{.epochs = 2, .batch = 2}, {.lr = 0.05}, {.kind = "prox", .mu = 0.8}});
}

TEST(Personal, OwnModelOfANewcomerIsTheReceivedOne) {
  const Regression r(random_clients());
  const auto mine = make_personal(make_sgd({}, r.federation, *r.model), kOwn);
  OneRound newcomer({5, 6, 7}, 3);
  mine->own_model(newcomer.task(1, 3));
  EXPECT_EQ(newcomer.row, (Row{5, 6, 7}));
}

// y <- y - lr (g - c_i + c) on the shared entry, y <- y - lr g on the own ones.
TEST(Personal, ScaffoldCorrectsTheSharedEntriesAlone) {
  const Regression r(random_clients());
  const ClientOptions options{{.steps = 5, .batch = 0}, {.lr = 0.08}, {.kind = "scaffold"}};
  const auto mine = make_personal(make_scaffold(options, r.federation, *r.model), kOwn);
  EXPECT_EQ(mine->state_width(), 3 + 2 + 1);
  EXPECT_EQ(mine->control_width(), 3);
  OneRound p({1, -2, 0.5}, 6);
  p.control = {0, 0.9F, 0};
  Numbers y{1, -2, 0.5};
  double own_control = 0;
  for (int64_t round = 1; round <= 2; ++round) {
    p.row = {1, -2, 0.5};
    y[1] = -2;
    p.train(*mine, 2, round);
    Numbers gradient;
    double mean = 0;
    for (int step = 0; step < 5; ++step) {
      r.loss_and_gradient(2, y, gradient);
      mean += gradient[1] / 5;
      for (std::size_t j = 0; j < 3; ++j) y[j] -= 0.08 * gradient[j];
      y[1] -= 0.08 * (static_cast<double>(0.9F) - own_control);
    }
    expect_close(p.row, {1, y[1], 0.5}, 1e-6);
    expect_close(p.change, {0, mean - own_control, 0}, 1e-5);
    own_control = mean;
    expect_close(p.state, {0, mean, 0, y[0], y[2], 1}, 1e-5);
  }
}

// Looks back at what it received, whatever else its pass keeps.
class LooksBack final : public PassUpdate {
 public:
  LooksBack(const Regression& r, bool keeps_start)
      : PassUpdate({{.steps = 1, .batch = 0}, {.lr = 0.1}}, r.federation, *r.model,
                   {{.looks_back = true, .keeps_start = keeps_start}}) {}
  bool after(std::size_t, const ClientTask&, std::span<const float>,
             std::span<const float> received) override {
    found.assign(received.begin(), received.end());
    return false;
  }
  Row found;
};

TEST(Passes, AfterSeesTheReceivedModel) {
  const Regression r(random_clients());
  for (const bool keeps_start : {false, true}) {
    LooksBack update(r, keeps_start);
    OneRound round({1, -2, 0.5});
    round.train(update, 0, 1);
    EXPECT_EQ(update.found, (Row{1, -2, 0.5}));
    EXPECT_NE(round.row, update.found);
  }
}

}  // namespace
}  // namespace hanse
