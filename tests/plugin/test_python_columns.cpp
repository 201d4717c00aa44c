// Rules in Python that work by columns, and attacks with a memory.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/plugin/rules.hpp"
#include "plugin/python_file.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

const std::vector<int64_t> kClients{4, 0, 2};
const Numbers kShares{0.1, 0.3, 0.6};
const Numbers kOnes{1, 1, 1};
const Numbers kNorms{3, 1, 4};

const std::string kByColumns = R"(
import numpy as np
class Aggregator:
    def __init__(self, clients, args):
        self.what, self.factor = args.get("what", ""), 1.0
    def columns(self, rows, weights):
        assert rows.dtype == np.float64 and rows.flags.writeable and not weights.flags.writeable
        if self.what == "short":
            return rows[0, 1:]
        if self.what == "raise":
            return rows + None
        if self.what == "nan":
            return rows[0] * np.array([1, np.nan, 1])
        rows *= self.factor
        return weights @ rows
)";

TEST(Python, AnAggregatorMayWorkByColumns) {
  const auto plain = make_own_aggregator(python("aggregator", kByColumns), 5);
  EXPECT_TRUE(plain->needs().own_columns);
  const Mix mix = plain->mix(
      {.round = 1, .clients = kClients, .lambda = kShares, .draw_weights = kOnes, .norms = kNorms});
  ASSERT_TRUE(mix.columns);
  EXPECT_NEAR(mix.columns->weights[1], 0.3, 1e-15);
  const Numbers values{1, 2, 3, 10, 20, 30}, weights{0.5, 2};
  const auto step = [&](const std::string& what, const std::string& more = "") {
    Numbers result(3);
    const auto columns = make_own_columns(
        python("aggregator", kByColumns + more, what.empty() ? "" : "what=" + what), 5);
    columns->step(values, weights, result);
    return result;
  };
  EXPECT_EQ(step(""), (Numbers{20.5, 41, 61.5}));
  const auto refused = [&](const std::string& what, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { step(what); }, parts);
  };
  refused("short", {".py:6: columns() returns an array of shape (2,), not a step of 3 columns",
                    "aggregator.path"});
  refused("raise", {".py:11: TypeError"});
  refused("nan", {".py:6: columns() returns nan for column 1 of 3"});
  expect_error<InvalidArgument>(
      [&] {
        make_own_aggregator(
            python("aggregator", kByColumns + "    needs = {'layers'}\n"), 5);
      },
      {"columns() makes one step of all layers"});
}

// What mix() learns reaches the columns by the saved state alone.
TEST(Python, ColumnsHaveTheStateBehindMix) {
  const RuleSource source = python("aggregator", kByColumns + R"(
    def mix(self, r):
        self.factor += 1
        return r.lam
    def state(self):
        return {"factor": self.factor}
    def load(self, state):
        assert self.factor == 1
        self.factor = float(state["factor"])
)");
  const auto rule = make_own_aggregator(source, 5);
  rule->mix({.round = 1,
             .clients = kClients,
             .lambda = kShares,
             .draw_weights = kOnes,
             .samples = kOnes,
             .norms = kNorms});
  State state;
  rule->save(state);
  const auto columns = make_own_columns(source, 5);
  Numbers step(1);
  for (int64_t round = 1; round < 3; ++round) {
    columns->begin(round, state);
    columns->step(Numbers{5}, Numbers{1}, step);
    EXPECT_EQ(step, Numbers{10});
  }
}

TEST(Python, AnAttackRemembersAndMaySeeTheLastAggregate) {
  const RuleSource source = python("attack", R"(
import numpy as np
class Attack:
    needs = {"last"}
    rounds = 0
    def attack(self, r):
        self.rounds += 1
        return np.append(np.zeros(r.honest + 2), self.rounds + r.gram[r.honest + 2, 0])
    def state(self):
        return {"rounds": self.rounds}
    def load(self, state):
        self.rounds = int(state["rounds"])
)");
  const auto attack = make_own_attack(source);
  EXPECT_TRUE(attack->sees_last());
  const Numbers products(16, 0.5);
  const AttackRound round{.round = 1, .honest = 1, .byzantine = 1, .gram = {products, 4}};
  EXPECT_EQ(attack->decide(round).coefficients, (Numbers{0, 0, 0, 1.5}));
  State state;
  attack->save(state);
  const auto other = make_own_attack(source);
  other->load(state);
  EXPECT_EQ(other->decide(round).coefficients, (Numbers{0, 0, 0, 2.5}));
  expect_error<InvalidArgument>(
      [] {
        make_own_attack(python("attack",
                               "class Attack:\n    needs = {'gram'}\n"
                               "    def attack(self, r):\n        pass\n"));
      },
      {"unknown need 'gram'; known: last"});
}

}  // namespace
}  // namespace hanse
