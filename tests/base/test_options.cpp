#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(ParseInteger, TheWholeTextIsOneValue) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-17"), -17);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* bad :
       {"", " 1", "1 ", "1.0", "1e3", "0x10", "--1", "9223372036854775808", "12a"}) {
    EXPECT_THROW(parse_integer(bad), InvalidArgument) << bad;
  }
}

TEST(ParseNumber, TheWholeTextIsOneValue) {
  EXPECT_EQ(parse_number("0.1"), 0.1);
  EXPECT_EQ(parse_number("+2.5e-3"), 2.5e-3);
  EXPECT_EQ(parse_number("-4"), -4.0);
  EXPECT_EQ(parse_number("inf"), kInf);
  for (const char* bad : {"", "+", "nan", "NaN", "-nan", "nan(1)", "1,5", "0.1x", "1e999", " 1",
                          "+-1", "++1", "0x10"}) {
    EXPECT_THROW(parse_number(bad), InvalidArgument) << bad;
  }
}

TEST(ParseBool, KnowsEightWordsInAnyCase) {
  for (const char* yes : {"true", "1", "yes", "on", "True", "TRUE", "Yes", "oN"}) {
    EXPECT_TRUE(parse_bool(yes)) << yes;
  }
  for (const char* no : {"false", "0", "no", "off", "False", "FALSE", "No", "Off"}) {
    EXPECT_FALSE(parse_bool(no)) << no;
  }
  for (const char* bad : {"", "Truth", "2", "y", "true "}) {
    EXPECT_THROW(parse_bool(bad), InvalidArgument) << bad;
  }
}

TEST(SplitList, TrimsItemsAndKeepsEmptyOnes) {
  using Items = std::vector<std::string>;
  EXPECT_EQ(split_list(""), Items{});
  EXPECT_EQ(split_list("  "), Items{});
  EXPECT_EQ(split_list(" a , b"), (Items{"a", "b"}));
  EXPECT_EQ(split_list("a,,b,"), (Items{"a", "", "b", ""}));
  EXPECT_EQ(split_list("a;b,c", ';'), (Items{"a", "b,c"}));
}

TEST(ParseNumber, ReadsTheShortestTextOfADouble) {
  for (const double x : {0.1, 1.0 / 3.0, -0.0, 1e300, 5e-324, 100.0}) {
    EXPECT_EQ(parse_number(fmt::format("{}", x)), x);
  }
}

TEST(Range, OpenAndClosedEnds) {
  EXPECT_TRUE(at_least(2).contains(2));
  EXPECT_FALSE(above(2).contains(2));
  EXPECT_TRUE(above(2).contains(2.0000001));
  EXPECT_TRUE(between(0, 1).contains(0) && between(0, 1).contains(1));
  EXPECT_FALSE(between(0, 1).contains(-1e-9) || between(0, 1).contains(1 + 1e-9));
  EXPECT_FALSE(above_to(0, 1).contains(0));
  EXPECT_TRUE(above_to(0, 1).contains(1));
  EXPECT_TRUE(from_below(0, 1).contains(0));
  EXPECT_FALSE(from_below(0, 1).contains(1));
}

TEST(Range, NanAndInfinitiesAreInNone) {
  for (const Range& range : {Range{}, at_least(0), above(0), between(0, 1), from_below(0, 1)}) {
    for (const double x : {kNan, kInf, -kInf}) EXPECT_FALSE(range.contains(x)) << range.text();
  }
}

TEST(Range, Text) {
  EXPECT_EQ(Range{}.text(), "");
  EXPECT_EQ(at_least(1).text(), "[1, inf)");
  EXPECT_EQ(above_to(0, 0.5).text(), "(0, 0.5]");
  EXPECT_EQ(from_below(0, 1).text(), "[0, 1)");
}

TEST(Nearest, SmallestEditDistance) {
  const std::vector<std::string> known{"uniform", "weighted", "full"};
  EXPECT_EQ(nearest("unifrom", known), "uniform");
  EXPECT_EQ(nearest("ful", known), "full");
  EXPECT_EQ(nearest("wieghted", known), "weighted");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("FULL", known), "full");
}

TEST(Suggestion, WhatBeginsWithTheTextComesBeforeTheNearest) {
  const std::vector<std::string> models{"mlp", "conv", "cnn-leaf", "cnn-cifar"};
  EXPECT_EQ(suggestion("cnn", models),
            "did you mean 'cnn-leaf' or 'cnn-cifar'? known: mlp, conv, cnn-leaf, cnn-cifar");
  EXPECT_TRUE(suggestion("CNN", models).starts_with("did you mean 'cnn-leaf' or 'cnn-cifar'?"));
  EXPECT_TRUE(suggestion("cnm-leaf", models).starts_with("did you mean 'cnn-leaf'?"));
  EXPECT_TRUE(suggestion("c", models).starts_with("did you mean 'mlp'?"));
  // Only the first of many is suggested.
  const std::vector<std::string> metrics{"auroc", "accuracy_mean", "accuracy_std", "accuracy_gap",
                                         "accuracy_kl"};
  EXPECT_TRUE(suggestion("accuracy", metrics).starts_with("did you mean 'accuracy_mean'?"));
}

enum class Reduction { kExact, kFast };
constexpr auto choices_of(Reduction) { return std::array{"exact", "fast"}; }

// A table with every type of field.
struct Fields {
  int64_t rounds = 3;
  double rate = 0.5;
  bool trace = false;
  std::string name = "run";
  std::vector<int64_t> sizes = {1, 2};
  std::vector<double> shares = {0.25, 0.75};
  std::string kind = "uniform";
  Reduction reduction = Reduction::kExact;
  OptionTable table;

  Fields() {
    table.add("run.rounds", rounds, at_least(1), "rounds");
    table.add("run.trace", trace, "trace");
    table.add("run.name", name, "name");
    table.add_choice("sampler.kind", kind, {"uniform", "osmd", "full"}, "who");
    table.add("run.reduction", reduction, "sums");
    table.add("sampler.shares", shares, between(0, 1), "shares");
    OptionTable uniform, osmd;
    uniform.add("sampler.sizes", sizes, at_least(1), "sizes");
    osmd.add("sampler.rate", rate, above_to(0, 1), "rate");
    osmd.add("sampler.sizes", sizes, at_least(1), "sizes");
    table.add_uses(uniform, "sampler.kind", "uniform");
    table.add_uses(osmd, "sampler.kind", "osmd");
  }
};

TEST(OptionTable, GathersSections) {
  double a = 0;
  OptionTable table;
  for (const auto* key : {"run.b", "data.z", "run.a", "model.x", "data.y", "run.c"}) {
    table.add(key, a, {}, "number");
  }
  table.gather_sections();
  std::vector<std::string> keys;
  for (const Option& option : table.options()) keys.push_back(option.key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"run.b", "run.a", "run.c", "data.z", "data.y", "model.x"}));
}

TEST(OptionTable, SetsEveryType) {
  Fields f;
  f.table.set("run.rounds", "7", "here");
  f.table.set("run.trace", "yes", "here");
  f.table.set("run.name", "  a name ", "here");
  f.table.set("sampler.rate", "1", "here");
  f.table.set("sampler.sizes", "4, 5,6", "here");
  f.table.set("sampler.shares", "", "here");
  f.table.set("sampler.kind", " full ", "here");
  EXPECT_EQ(f.rounds, 7);
  EXPECT_TRUE(f.trace);
  EXPECT_EQ(f.name, "a name");
  EXPECT_EQ(f.rate, 1.0);
  EXPECT_EQ(f.sizes, (std::vector<int64_t>{4, 5, 6}));
  EXPECT_TRUE(f.shares.empty());
  EXPECT_EQ(f.kind, "full");
}

TEST(OptionTable, AChoiceHasTheNamesOfItsEnum) {
  Fields f;
  EXPECT_EQ(f.table.at("run.reduction").range, "exact | fast");
  EXPECT_EQ(f.table.at("run.reduction").default_text, "exact");
  f.table.set("run.reduction", "fast", "here");
  EXPECT_EQ(f.reduction, Reduction::kFast);
  EXPECT_EQ(f.table.at("run.reduction").format(), "fast");
  expect_error<InvalidArgument>([&] { f.table.set("run.reduction", "fasr", "here"); },
                                {"unknown value 'fasr'", "did you mean 'fast'"});
  EXPECT_EQ(f.reduction, Reduction::kFast);
}

TEST(Choice, ANameGivesItsValueAndOthersNone) {
  EXPECT_EQ(value_of<Reduction>("fast"), Reduction::kFast);
  EXPECT_EQ(value_of<Reduction>("fas"), std::nullopt);
  EXPECT_EQ(all_of<Reduction>(), (std::array{Reduction::kExact, Reduction::kFast}));
}

TEST(OptionTable, ParseOfFormatIsIdentity) {
  Fields f;
  f.rate = 1.0 / 3.0;
  f.shares = {0.1, 1e-17};
  for (const Option& option : f.table.options()) {
    const std::string text = option.format();
    f.table.set(option.key, text, "");
    EXPECT_EQ(option.format(), text) << option.key;
  }
  EXPECT_EQ(f.rate, 1.0 / 3.0);
  EXPECT_EQ(f.shares[1], 1e-17);
}

TEST(OptionTable, KeepsDefaultsGivenAndWhere) {
  Fields f;
  EXPECT_FALSE(f.table.at("run.rounds").given);
  f.table.set("run.rounds", "9", "job.cfg:4");
  const Option& option = f.table.at("run.rounds");
  EXPECT_TRUE(option.given);
  EXPECT_EQ(option.where, "job.cfg:4");
  EXPECT_EQ(option.default_text, "3");
  EXPECT_EQ(option.format(), "9");
  EXPECT_EQ(option.range, "[1, inf)");
  EXPECT_FALSE(f.table.at("run.trace").given);
}

TEST(OptionTable, RefusesWhatIsOutOfRangeAndKeepsTheField) {
  Fields f;
  const auto refused = [&](const std::string& key, const std::string& text) {
    expect_error<InvalidArgument>([&] { f.table.set(key, text, "job.cfg:2"); },
                                  {key + ": ", "(job.cfg:2)"});
    EXPECT_FALSE(f.table.at(key).given);
  };
  for (const char* text : {"0", "-1", "1.5", "x"}) refused("run.rounds", text);
  for (const char* text : {"0", "1.01", "nan", "inf", "-inf"}) refused("sampler.rate", text);
  for (const char* text : {"1,0", "1,,2", "1,x"}) refused("sampler.sizes", text);
  refused("sampler.shares", "0.5,nan");
  refused("run.trace", "maybe");
  EXPECT_EQ(f.rounds, 3);
  EXPECT_EQ(f.rate, 0.5);
  EXPECT_EQ(f.sizes, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(f.shares, (std::vector<double>{0.25, 0.75}));
}

TEST(OptionTable, NamesTheNearestOfWhatItKnows) {
  Fields f;
  expect_error<InvalidArgument>(
      [&] { f.table.set("run.round", "1", "job.cfg:3"); },
      {"unknown key 'run.round'", "job.cfg:3", "did you mean 'run.rounds'", "rounds, trace, name"});
  expect_error<InvalidArgument>(
      [&] { f.table.set("sampel.kind", "1", "--sampel.kind"); },
      {"unknown section 'sampel'", "did you mean 'sampler'", "known sections: run, sampler"});
  expect_error<InvalidArgument>(
      [&] { f.table.set("sampler.kind", "unifrm", "x"); },
      {"sampler.kind", "'unifrm'", "did you mean 'uniform'", "uniform, osmd, full"});
  // By the last part, or its initials.
  expect_error<InvalidArgument>([&] { f.table.set("rounds", "1", "job.cfg:1"); },
                                {"unknown key 'rounds'", "did you mean run.rounds?"});
  expect_error<InvalidArgument>([&] { f.table.set("round", "1", "job.cfg:1"); },
                                {"unknown key 'round'", "did you mean run.rounds?"});
  double lr = 1;
  f.table.add("client.lr", lr, above(0), "rate");
  f.table.add("server.lr", lr, above(0), "rate");
  for (const char* key : {"lr", "learning-rate", "train.lr", "sampel.learning-rate"}) {
    expect_error<InvalidArgument>([&] { f.table.set(key, "1", "x"); },
                                  {"did you mean client.lr or server.lr?"});
  }
  expect_error<InvalidArgument>([&] { f.table.set("server.learning-rate", "1", "x"); },
                                {"did you mean 'server.lr'?"});
}

TEST(OptionTable, NamesTheKeyThatHasTheKind) {
  std::string rule = "fedavg", update = "sgd", own = "sgd", server = "sgd", role = "auto";
  double mu = 1, alpha = 1;
  OptionTable table;
  table.add_choice("aggregator.kind", rule, {"fedavg", "propfair"}, "rule");
  table.add_choice("client.update", update, {"sgd", "prox", "scaffold"}, "update");
  table.add_choice("client.optimizer", own, {"sgd", "adam"}, "steps of clients");
  table.add_choice("server.optimizer", server, {"sgd", "adam", "yogi"}, "steps of the server");
  table.add_choice("server.role", role, {"auto", "shared"}, "role");
  OptionTable keys;
  keys.add("client.mu", mu, at_least(0), "of prox");
  table.add_uses(keys, "client.update", "prox");
  for (const char* key : {"aggregator.kind", "client.optimizer", "server.optimizer"}) {
    OptionTable more;
    more.add(std::string(key) + "-alpha", alpha, at_least(0), "of one");
    table.add_uses(more, key, std::string(key) == "aggregator.kind" ? "propfair" : "adam");
  }
  const auto refused = [&](const std::string& key, const std::string& value,
                           const std::string& hint) {
    expect_error<InvalidArgument>(
        [&] { table.set(key, value, "job.cfg:3"); },
        {key + ": unknown value '" + value + "'", "job.cfg:3", "hint: " + hint});
  };
  refused("aggregator.kind", "scaffold", "did you mean client.update = scaffold? known: fedavg, ");
  refused("aggregator.kind", "fedprox", "did you mean client.update = prox? known: fedavg, ");
  refused("aggregator.kind", "FedProx", "did you mean client.update = prox?");
  refused("aggregator.kind", "fedadam", "did you mean server.optimizer = adam?");
  refused("aggregator.kind", "fed-yogi", "did you mean server.optimizer = yogi?");
  refused("aggregator.kind", "adam",
          "did you mean client.optimizer = adam or server.optimizer = adam?");
  refused("aggregator.kind", "avg", "did you mean aggregator.kind = fedavg?");
  refused("aggregator.kind", "FedAvg", "did you mean aggregator.kind = fedavg?");
  refused("client.update", "fedavg", "did you mean aggregator.kind = fedavg? known: sgd, ");
  refused("server.role", "prox", "did you mean 'auto'?");  // not a key of kinds
  expect_error<InvalidArgument>([&] { table.set("aggregator.kind", "prop", "x"); },
                                {"did you mean 'propfair'?"});
  for (const char* odd : {"fed", "fed-", "f", "", "-"}) {
    EXPECT_THROW(table.set("aggregator.kind", odd, "x"), InvalidArgument) << odd;
  }
}

TEST(OptionTable, NamesCharactersThatAReaderDoesNotSee) {
  Fields f;
  for (const char* quoted : {"\"3\"", "'3'", "\u201c3\u201d"}) {
    expect_error<InvalidArgument>([&] { f.table.set("run.rounds", quoted, "job.cfg:3"); },
                                  {"is not an integer", "hint: values stand without quotes"});
  }
  expect_error<InvalidArgument>([&] { f.table.set("run.rounds", "1\u00a0000", "job.cfg:3"); },
                                {"is not an integer", "hint: ", "U+00A0"});
}

TEST(OptionTable, IgnoredAreGivenKeysOfOtherKinds) {
  Fields f;
  EXPECT_TRUE(f.table.ignored().empty());
  f.table.set("sampler.rate", "0.5", "");
  f.table.set("sampler.sizes", "1", "");
  f.table.set("sampler.shares", "1", "");
  EXPECT_TRUE(f.table.ignored().empty()) << "it has its default";
  f.table.set("sampler.rate", "0.25", "");
  EXPECT_EQ(f.table.ignored(), (std::vector<std::string>{"sampler.rate (sampler.kind=uniform)"}));
  f.table.set("sampler.kind", "osmd", "");
  EXPECT_TRUE(f.table.ignored().empty());
  f.table.set("sampler.kind", "full", "");
  EXPECT_EQ(f.table.ignored().size(), 2U);
}

// A key of two kinds, with a range and help of each, and of a kind of another section.
struct SharedFields {
  std::string kind = "uniform";
  std::string rule = "mean";
  double rate = 0.5;
  int64_t depth = 1;
  OptionTable table;

  SharedFields() {
    table.add_choice("sampler.kind", kind, {"uniform", "osmd", "mabs"}, "who");
    table.add_choice("rule.kind", rule, {"mean", "median"}, "how");
    OptionTable osmd, mabs, median;
    osmd.add("sampler.rate", rate, above_to(0, 1), "rate of osmd");
    rate = 4;
    mabs.add("sampler.rate", rate, at_least(2), "rate of mabs");
    rate = 0.5;
    median.add("sampler.depth", depth, at_least(0), "depth of the median");
    table.add_uses(osmd, "sampler.kind", "osmd");
    table.add_uses(mabs, "sampler.kind", "mabs");
    table.add_uses(median, "rule.kind", "median");
  }
};

TEST(KindUse, EachKindHasItsOwnDefaultRangeAndHelp) {
  SharedFields f;
  const auto& uses = f.table.at("sampler.rate").uses;
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].help, "rate of osmd");
  EXPECT_EQ(uses[1].help, "rate of mabs");
  EXPECT_EQ(uses[0].default_text, "0.5");
  EXPECT_EQ(uses[1].default_text, "4");
  EXPECT_EQ(uses[1].range, "[2, inf)");
  f.table.set("sampler.kind", "mabs", "");
  f.table.resolve();
  EXPECT_EQ(f.rate, 4);
  f.table.set("sampler.kind", "osmd", "");
  f.table.resolve();
  EXPECT_EQ(f.rate, 0.5);
}

// The kind may be named behind its keys: what one kind accepts is a value until it is chosen.
TEST(KindUse, TheRangeIsThatOfTheChosenKind) {
  SharedFields f;
  EXPECT_THROW(f.table.set("sampler.rate", "1.5", ""), InvalidArgument);
  f.table.set("sampler.rate", "3", "job.cfg:7");
  EXPECT_EQ(f.rate, 3);
  f.table.set("sampler.kind", "mabs", "");
  f.table.resolve();
  EXPECT_EQ(f.rate, 3);
  f.table.set("sampler.kind", "osmd", "");
  expect_error<InvalidArgument>([&] { f.table.resolve(); },
                                {"sampler.rate", "3 is out of range (0, 1]", "osmd", "job.cfg:7"});
}

TEST(KindUse, UseFollowsTheKindsOfEverySection) {
  SharedFields f;
  f.table.set("sampler.depth", "2", "");
  f.table.set("sampler.rate", "1", "");
  EXPECT_EQ(f.table.ignored(), (std::vector<std::string>{"sampler.rate (sampler.kind=uniform)",
                                                         "sampler.depth (rule.kind=mean)"}));
  f.table.set("sampler.kind", "osmd", "");
  f.table.set("rule.kind", "median", "");
  EXPECT_TRUE(f.table.ignored().empty());
  // A choice that is not read chooses nothing.
  const auto reads = [](const std::string& key) { return key != "rule.kind"; };
  EXPECT_EQ(f.table.ignored(reads).size(), 1U);
}

TEST(OptionTable, ANumberOrAuto) {
  int64_t horizon = 0;
  double mixing = 0.5;
  OptionTable table;
  table.add("sampler.horizon", horizon, or_auto(at_least(1)), "rounds");
  table.add("sampler.mixing", mixing, or_auto(above_to(0, 1)), "share");
  EXPECT_EQ(table.at("sampler.horizon").default_text, "auto");
  EXPECT_EQ(table.at("sampler.horizon").range, "auto | [1, inf)");
  EXPECT_EQ(table.at("sampler.mixing").default_text, "0.5");
  table.set("sampler.horizon", "7", "");
  EXPECT_EQ(table.at("sampler.horizon").format(), "7");
  for (const char* automatic : {"auto", "0"}) {
    table.set("sampler.horizon", "7", "");
    table.set("sampler.horizon", automatic, "");
    EXPECT_EQ(horizon, 0);
    EXPECT_EQ(table.at("sampler.horizon").format(), "auto");
    table.set("sampler.mixing", automatic, "");
    EXPECT_EQ(table.at("sampler.mixing").format(), "auto");
  }
  for (const char* bad : {"-1", "0.5", "Auto", ""}) {
    expect_error<InvalidArgument>([&] { table.set("sampler.horizon", bad, "job.cfg:3"); },
                                  {"sampler.horizon", "job.cfg:3"});
  }
}

TEST(OptionTable, ANumberOrAWord) {
  std::optional<double> eta;
  OptionTable table;
  table.add("sampler.eta", eta, "auto", "rate");
  EXPECT_EQ(table.at("sampler.eta").default_text, "auto");
  table.set("sampler.eta", "0.25", "");
  EXPECT_EQ(eta, 0.25);
  table.set("sampler.eta", "auto", "");
  EXPECT_EQ(eta, std::nullopt);
  for (const char* bad : {"-1", "nan", "inf", "Auto", ""}) {
    expect_error<InvalidArgument>([&] { table.set("sampler.eta", bad, "job.cfg:3"); },
                                  {"sampler.eta", "job.cfg:3", "known: auto"});
  }
}

}  // namespace
}  // namespace hanse
