// Rules in Python: what their methods are given and may return, and errors that name the line.
#include <algorithm>
#include <cmath>
#include <cstdlib>
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
const Numbers kDraws{1.8, 0.9, 0.3};
const Numbers kLosses{1, 3, 2};
const Numbers kNorms{3, 1, 4};
const Numbers kRates{0.5, 0.25, 0.125};
const Numbers kGram{2, 0, 1, 0, 3, 0, 1, 0, 5};
const Numbers kSamples{10, 30, 60};

Numbers mix(Aggregator& rule) {
  return rule
      .mix({.round = 7,
            .clients = kClients,
            .lambda = kShares,
            .draw_weights = kDraws,
            .losses = kLosses,
            .samples = kSamples,
            .norms = kNorms,
            .gram = rule.needs().gram ? kGram : Numbers(),
            .rates = kRates})
      .coefficients;
}

// An aggregator whose mix has this body.
std::string mixing(const std::string& body, const std::string& more = "") {
  return "import numpy as np\n\nclass Aggregator:\n    needs = {'losses'}\n" + more +
         "    def mix(self, r):\n        " + body + "\n";
}

Numbers mixed(const std::string& body, const std::string& more = "") {
  return mix(*make_own_aggregator(python("aggregator", mixing(body, more)), 5));
}

TEST(Python, WhatMixIsGiven) {
  EXPECT_EQ(mixed("return r.lam"), kShares);
  EXPECT_EQ(mixed("return r.draw_weights"), kDraws);
  EXPECT_EQ(mixed("return r.losses"), kLosses);
  EXPECT_EQ(mixed("return r.samples"), kSamples);
  EXPECT_EQ(mixed("return r.clients + r.round"), (Numbers{11, 7, 9}));
  EXPECT_EQ(mixed("return list(r.norms)"), kNorms);
  EXPECT_EQ(mixed("return tuple(r.rates)"), kRates);
  EXPECT_EQ(mixed("return r.gram.diagonal()", "    needs = ['gram']\n"), (Numbers{2, 3, 5}));
  EXPECT_EQ(mixed("return [float(r.lam.dtype == 'f8' and r.gram is None)] * 3"),
            (Numbers{1, 1, 1}));
}

TEST(Python, NeedsAndArguments) {
  const auto needs = [](const std::string& list) {
    return make_own_aggregator(
               python("aggregator", mixing("return r.lam", "    needs = " + list + "\n")), 5)
        ->needs();
  };
  EXPECT_FALSE(needs("set()").losses);
  EXPECT_TRUE(needs("{'losses', 'sizes'}").losses);
  EXPECT_TRUE(needs("{'norms'}").after_training());
  EXPECT_TRUE(needs("('rates',)").rates);
  EXPECT_TRUE(needs("{'rates'}").late);
  EXPECT_TRUE(needs("{'layers'}").gram);
  EXPECT_TRUE(needs("{'gram', 'norms'}").late);
  const auto rule = make_own_aggregator(python("aggregator",
                                               "class Aggregator:\n"
                                               "    def __init__(self, clients, args):\n"
                                               "        self.value = clients + float(args['t'])\n"
                                               "        assert args == {'t': '0.5', 's': 'a b'}\n"
                                               "    def mix(self, r):\n"
                                               "        return [self.value] * 3\n",
                                               "t=0.5, s = a b"),
                                        5);
  EXPECT_EQ(mix(*rule), (Numbers{5.5, 5.5, 5.5}));
}

TEST(Python, WhatMixMayNotDo) {
  const auto refused = [](const std::string& body, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { mixed(body); }, parts);
  };
  refused("return [1, 2]",
          {".py:5: mix() returns an array of shape (2,), not 3 coefficients", "aggregator.path"});
  refused("return None", {"returns a NoneType, not 3 coefficients"});
  refused("return 'abc'", {"returns a str"});
  refused("return ['1', '2', '3']", {"returns a list"});
  refused("return r.lam * 1j", {"returns a ndarray"});
  refused("return r.lam * np.nan", {"gives client 4 the coefficient nan in round 7"});
  refused("return -r.lam", {"gives client 4 the coefficient -0.1"});
  refused("return r.lam / 0", {"the coefficient inf"});
  refused("return 1 // 0", {".py:6: ZeroDivisionError"});
  refused("return r.none", {".py:6: AttributeError"});
  refused("r.lam[0] = 1", {".py:6: ValueError", "read-only"});
  refused("import sys; sys.exit(3)", {".py:6: SystemExit: 3"});
  refused("return self.mix(r)", {".py:6: RecursionError"});
  refused("raise ValueError('a\\nb')", {"ValueError: a b"});
  refused("import no_such_module", {".py:6: ModuleNotFoundError", "no_such_module"});
  refused("return np.ones((3, 1))", {"shape (3, 1)"});
}

TEST(Python, WhatIsRefusedBeforeTheFirstRound) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { make_own_aggregator(python("aggregator", text), 5); },
                                  parts);
  };
  refused("x = 1\ndef f(:\n", {".py:2: SyntaxError", "aggregator.path"});
  refused("x = 1\n1 / 0\n", {".py:2: ZeroDivisionError"});
  refused("import sys\nsys.exit()\n", {".py:2: SystemExit"});
  refused("Aggregator = 3\n", {"it has no class Aggregator"});
  refused("class Aggregator:\n    pass\n", {"its class Aggregator has no method mix"});
  refused(mixing("pass", "    def __init__(self, clients):\n        pass\n"),
          {"TypeError", "__init__"});
  refused(mixing("pass", "    needs = {'loss'}\n"), {"unknown need 'loss'; known: sizes, losses"});
  refused(mixing("pass", "    needs = 'losses'\n"), {"needs is a text"});
  refused(mixing("pass", "    def state(self):\n        return {}\n"),
          {"has one of state() and load(), not both"});
  expect_error<InvalidArgument>(
      [] { make_own_metric(python("evaluate", "class Sampler: pass\n").file.path); },
      {"no class Metric", "evaluate.metric"});
}

constexpr const char* kStream = R"(
class Sampler:
    def __init__(self, clients, args):
        self.kind = args["kind"]
    def draw(self, round, available, rng):
        self.rng = rng
        if self.kind == "random":
            return available[:2], rng.random(2)
        if self.kind == "normal":
            return available[:2], abs(rng.normal(2))
        if self.kind == "integers":
            return available[rng.integers(1, 3, 1)], [1]
        if self.kind == "permutation":
            return available[rng.permutation(len(available))][:self.per_round], [round] * 3
        if self.kind == "nobody":
            return [], []
        if self.kind == "later":
            return available, available * 0
        if self.kind == "many":
            return range(9), range(9)
        if self.kind == "asked":
            return available[:self.per_round], [self.per_round] * self.per_round
        if self.kind == "floats":
            return [0.5], [1]
        if self.kind == "weights":
            return [0, 2], [1]
        if self.kind == "single":
            return [0, 2]
        return 7
    def observe(self, clients, feedback, losses):
        self.rng.random(1)
)";

Draw draw(const std::string& kind, int64_t n = 3) {
  const auto sampler =
      make_own_sampler(python("sampler", kStream, "kind=" + kind), Numbers(5, 1.0), 3);
  sampler->toggle(std::vector<int64_t>{1, 3});
  RandomStream stream(3, Purpose::kSampling, 4);
  const Draw drawn = sampler->draw(4, n, stream);
  const Numbers reported(drawn.size(), 1.0);
  if (kind == "later") sampler->observe(drawn, {.a = reported, .losses = reported});
  return drawn;
}

TEST(Python, ASamplerDrawsFromHansesStream) {
  RandomStream stream(3, Purpose::kSampling, 4), again = stream, third = stream;
  const double first = stream.uniform(), second = stream.uniform();
  EXPECT_EQ(draw("random").clients, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(draw("random").weights, (Numbers{first, second}));
  const double normal = std::abs(again.normal());
  EXPECT_EQ(draw("normal").weights, (Numbers{normal, std::abs(again.normal())}));
  const std::vector<int64_t> available{0, 2, 4};
  const auto place = static_cast<std::size_t>(1 + third.below(2));
  EXPECT_EQ(draw("integers").clients, (std::vector<int64_t>{available[place]}));
  auto shuffled = draw("permutation").clients;
  EXPECT_EQ(draw("permutation").weights, (Numbers{4, 4, 4}));
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, available);
  EXPECT_EQ(draw("nobody").size(), 0U);
}

TEST(Python, ASamplerIsToldHowManyADrawAsksFor) {
  EXPECT_EQ(draw("asked").weights, Numbers(3, 3.0));
  EXPECT_EQ(draw("asked", 1).weights, Numbers{1});
  // Behind the draw it is again what a resumed run would find.
  const auto sampler = make_own_sampler(python("sampler", R"(
class Sampler:
    def draw(self, round, available, rng):
        return available[:self.per_round], [1] * self.per_round
    def observe(self, clients, feedback, losses):
        assert self.per_round == 3
)"),
                                        Numbers(5, 1.0), 3);
  RandomStream stream(3, Purpose::kSampling, 4);
  const Draw drawn = sampler->draw(1, 2, stream);
  EXPECT_EQ(drawn.clients, (std::vector<int64_t>{0, 1}));
  sampler->observe(drawn, {.a = Numbers{1, 1}, .losses = Numbers{1, 1}});
}

constexpr const char* kByLosses = R"(
import numpy as np
class Sampler:
    needs = {"candidates"}
    def __init__(self, clients, args):
        self.heard = np.zeros(3)
        self.kind = args.get("kind", "")
        assert self.sizes.tolist() == [1, 2, 3, 4, 5] and not self.sizes.flags.writeable
    def candidates(self, round, available, rng):
        if self.kind == "floats":
            return [0.5]
        return available[rng.choice(len(available), 2, self.sizes[available])]
    def draw(self, round, candidates, losses, rng):
        return candidates[losses == losses.max()], losses[losses == losses.max()]
    def observe(self, clients, feedback, losses, durations=None, staleness=None):
        self.heard = np.array([durations[0] if durations is not None else -1, staleness[0], 0.0])
    def observe_late(self, clients, durations):
        self.heard[2] = durations[clients == 4][0]
    def state(self):
        return {"heard": self.heard}
    def load(self, state):
        self.heard = state["heard"]
)";

TEST(Python, ASamplerMayDrawByLossesAndIsToldSizesAndTimes) {
  const Numbers sizes{1, 2, 3, 4, 5};
  const auto sampler = make_own_sampler(python("sampler", kByLosses), sizes, 3);
  ASSERT_TRUE(sampler->needs_candidates());
  sampler->toggle(std::vector<int64_t>{1, 3});
  RandomStream stream(3, Purpose::kSampling, 4);
  const auto named = sampler->candidates(4, 3, stream);
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(std::count(named.begin(), named.end(), 1) + std::count(named.begin(), named.end(), 3),
            0);
  sampler->take_candidates(named, Numbers{1, 4});
  const Draw drawn = sampler->draw(4, 3, stream);
  EXPECT_EQ(drawn.clients, std::vector<int64_t>{named[1]});
  EXPECT_EQ(drawn.weights, Numbers{4});
  const Numbers one{1}, seconds{5};
  const std::vector<int64_t> late{2};
  const auto heard = [&] {
    State state;
    sampler->save(state);
    return state.get<double>("own/heard/values");
  };
  sampler->observe(drawn, {.a = one, .losses = one});
  EXPECT_EQ(heard(), (Numbers{-1, 0, 0}));
  sampler->observe(drawn, {.a = one, .losses = one, .staleness = late, .durations = seconds});
  sampler->observe_late(std::vector<int64_t>{0, 4}, Numbers{8, 9});
  EXPECT_EQ(heard(), (Numbers{5, 2, 9}));
  const auto wrong = make_own_sampler(python("sampler", kByLosses, "kind=floats"), sizes, 3);
  expect_error<InvalidArgument>([&] { wrong->candidates(1, 3, stream); },
                                {"candidates() returns a list, not ids of clients"});
}

TEST(Python, ASamplerThatNeedsCandidatesNamesThem) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>(
        [&] { make_own_sampler(python("sampler", text), Numbers(3, 1.0), 2); }, parts);
  };
  const std::string begin = "class Sampler:\n    needs = {'";
  const std::string end = "'}\n    def draw(self, round, candidates, losses, rng): pass\n";
  refused(begin + "candidates" + end, {"its class Sampler has no method candidates"});
  refused(begin + "losses" + end, {"unknown need 'losses'; known: candidates"});
}

// Each pair is as likely as draws one after the other make it.
TEST(Python, ChoicesGoByTheirProbabilities) {
  const auto sampler = make_own_sampler(python("sampler", R"(
class Sampler:
    def draw(self, round, available, rng):
        assert sorted(rng.choice(5, 5).tolist()) == [0, 1, 2, 3, 4]
        for wrong in ((3, 4), (3, -1), (3, 1, [1, 1]), (2, 1, [-1, 2]), (3, 2, [0, 0, 1])):
            try:
                rng.choice(*wrong)
            except ValueError:
                continue
            raise AssertionError(wrong)
        return rng.choice(3, 2, [0.2, 0.3, 0.5]), [1, 1]
)"),
                                        Numbers(3, 1.0), 2);
  const int rounds = 4000;
  int first = 0, both = 0;
  for (int round = 0; round < rounds; ++round) {
    RandomStream stream(3, Purpose::kSampling, static_cast<uint64_t>(round));
    const auto drawn = sampler->draw(round, 2, stream).clients;
    first += drawn[0] == 2;
    both += drawn[0] == 2 && drawn[1] == 1;
  }
  EXPECT_NEAR(first / static_cast<double>(rounds), 0.5, 0.03);
  EXPECT_NEAR(both / static_cast<double>(rounds), 0.5 * 0.3 / 0.5, 0.03);
}

TEST(Python, AnAggregatorIsToldTimes) {
  const auto rule = make_own_aggregator(
      python("aggregator", mixing("return r.staleness + (0 if r.durations is None else "
                                  "r.durations)")),
      5);
  EXPECT_EQ(mix(*rule), Numbers(3, 0.0));
  const std::vector<int64_t> staleness{0, 2, 1};
  EXPECT_EQ(rule->mix({.round = 7,
                       .clients = kClients,
                       .lambda = kShares,
                       .draw_weights = kDraws,
                       .losses = kLosses,
                       .samples = kSamples,
                       .staleness = staleness,
                       .durations = kNorms})
                .coefficients,
            (Numbers{3, 3, 5}));
}

TEST(Python, WhatDrawMayNotDo) {
  const auto refused = [](const std::string& kind, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { draw(kind); }, parts);
  };
  refused("many", {".py:5: draw() returns 9 clients, more than sampler.per-round = 3"});
  expect_error<InvalidArgument>([] { draw("many", 1); },
                                {"more than the 1 that this draw asks for", "self.per_round"});
  refused("floats", {"draw() returns a list, not ids of clients"});
  refused("weights", {"returns an array of shape (1,), not a weight for each of 2 clients"});
  refused("single", {"returns an array of shape (), not ids of clients", "sampler.path"});
  refused("number", {"draw() returns a int, not clients and weights"});
  refused("later", {"RuntimeError: rng belongs to one draw, which is over"});
}

TEST(Python, OptimizerOnFlatRows) {
  const auto step = [](const std::string& body, std::vector<float> theta, double lr) {
    const auto rule = make_own_optimizer(
        python("server", "class Optimizer:\n    def step(self, theta, update):\n        " + body),
        5);
    rule->step(theta, std::vector<float>{2, 4, -6}, lr);
    return theta;
  };
  EXPECT_EQ(step("return theta + update", {1, 2, 3}, 0.5), (std::vector<float>{2, 4, 0}));
  EXPECT_EQ(step("theta -= update\n        return theta", {1, 2, 3}, 1),
            (std::vector<float>{-1, -2, 9}));
  expect_error<InvalidArgument>(
      [&] {
        step("return theta[:2]", {1, 2, 3}, 1);
      },
      {"step() returns an array of shape (2,), not 3 parameters"});
  expect_error<InvalidArgument>(
      [&] {
        step("return theta / 0", {1, 2, 3}, 1);
      },
      {"step() gives theta[0] = inf", "server.path"});
}

TEST(Python, MetricsAreNamedNumbers) {
  const EvaluationTable clients{{.samples = 3, .loss = 0.5, .accuracy = 0.25},
                                {.samples = 5, .loss = 2, .accuracy = 1, .client = 1}};
  const auto measure = [&](const std::string& result) {
    return make_own_metric(
        python("evaluate", "class Metric:\n    def __call__(self, clients):\n        " + result)
            .file.path)(clients, {});
  };
  EXPECT_EQ(measure("return {'b': max(clients.loss), 'a': clients.samples @ clients.accuracy}"),
            (Metrics{{"b", 2}, {"a", 5.75}}));
  EXPECT_EQ(measure("return {clients.name[1]: 3}"), (Metrics{{"1", 3}}));
  const auto refused = [&](const std::string& result, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { measure(result); }, parts);
  };
  refused("return 3", {"__call__() returns a int, not a dict", "evaluate.metric"});
  refused("return {1: 2}", {"the name 1, which is no text"});
  refused("return {'a,b': 2}", {"'a,b', which is no new column"});
  refused("return {'a': 'x'}", {"ValueError"});
}

constexpr const char* kState = R"(
import numpy as np

class Aggregator:
    def mix(self, r):
        return r.lam
    def state(self):
        return {"empty": np.zeros((0, 3)), "flags": np.array([True, False, True]), "half": 0.5,
                "ints": np.arange(6, dtype=np.int64).reshape(2, 3), "name": "été",
                "small": np.float32([1.5, 2]), "bytes": np.uint8(7), "odd": np.float64(np.nan),
                "swapped": np.arange(4, dtype=">i2").reshape(2, 2).T}
    def load(self, state):
        expected = self.state()
        assert list(state) == sorted(expected)
        for name, array in state.items():
            wanted = np.asarray(expected[name])
            assert array.dtype == wanted.dtype and array.shape == wanted.shape, name
            assert array.tobytes() == wanted.tobytes() and array.flags.writeable, name
)";

TEST(Python, StateComesBackWithTypeAndShape) {
  const auto rule = make_own_aggregator(python("aggregator", kState), 5);
  State state;
  rule->save(state);
  EXPECT_EQ(state.get<double>("own/half/values"), (Numbers{0.5}));
  EXPECT_EQ(state.get<int64_t>("own/ints/shape"), (std::vector<int64_t>{2, 3}));
  rule->load(state);
  const auto refused = [](const std::string& value, std::initializer_list<std::string> parts) {
    const std::string text =
        mixing("return r.lam", "    def state(self):\n        return " + value +
                                   "\n    def load(self, s):\n        pass\n");
    const auto bad = make_own_aggregator(python("aggregator", text), 5);
    State kept;
    expect_error<InvalidArgument>([&] { bad->save(kept); }, parts);
  };
  refused("3", {"state() returns a int, not a dict"});
  refused("{'a/b': 1}", {"the name 'a/b'"});
  refused("{'a': None}", {"returns 'a', which is no array of numbers"});
  const auto none = make_own_aggregator(python("aggregator", mixing("return r.lam")), 5);
  expect_error<InvalidArgument>([&] { none->load(state); }, {"a state, and the rule no load()"});
}

}  // namespace
}  // namespace hanse
