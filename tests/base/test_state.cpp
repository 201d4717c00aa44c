#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/state.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

TEST(State, GivesBackEveryType) {
  State state;
  state.put("integers", std::vector<int64_t>{1, -2});
  state.put("doubles", std::vector<double>{0.1, -0.0, 3});
  state.put("floats", std::vector<float>{0.1F});
  state.put("nothing", std::vector<float>{});
  state.put("round", int64_t{7});
  state.put("rate", 0.25);
  state.put_text("job", "a\nb");
  EXPECT_EQ(state.get<int64_t>("integers"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(state.get<double>("doubles"), (std::vector<double>{0.1, -0.0, 3}));
  EXPECT_EQ(state.get<float>("floats"), (std::vector<float>{0.1F}));
  EXPECT_TRUE(state.get<float>("nothing").empty());
  EXPECT_EQ(state.get_one<int64_t>("round"), 7);
  EXPECT_EQ(state.get_one<double>("rate"), 0.25);
  EXPECT_EQ(state.get_text("job"), "a\nb");
  std::vector<double> out(3);
  state.get_into<double>("doubles", out);
  EXPECT_EQ(out, (std::vector<double>{0.1, -0.0, 3}));
  EXPECT_TRUE(state.contains("job"));
  EXPECT_FALSE(state.contains("jo"));
}

TEST(State, TheLastPutCounts) {
  State state;
  state.put("x", int64_t{1});
  state.put("x", 2.5);
  EXPECT_EQ(state.get_one<double>("x"), 2.5);
  EXPECT_EQ(state.arrays().size(), 1U);
}

TEST(State, SaysWhatIsMissingOrOfAnotherShape) {
  State state;
  state.put("rates", std::vector<double>{1, 2});
  state.put_text("job", "x");
  expect_error<IoError>([&] { state.get<double>("other"); }, {"'other' is missing", "hint: "});
  expect_error<IoError>([&] { state.get<float>("rates"); }, {"'rates'", "another type"});
  expect_error<IoError>([&] { state.get_text("rates"); }, {"'rates'", "another type"});
  expect_error<IoError>([&] { state.get<double>("job"); }, {"'job'", "another type"});
  expect_error<IoError>([&] { state.get_one<double>("rates"); }, {"2 values, expected 1"});
  std::vector<double> out(3);
  expect_error<IoError>([&] { state.get_into<double>("rates", out); }, {"2 values, expected 3"});
}

TEST(State, PartsNestAndComeOutAgain) {
  State inner;
  inner.put("n", int64_t{1});
  State part;
  part.put("weights", std::vector<double>{1, 2});
  part.put_part("inner", std::move(inner));
  State state;
  state.put("sampler", int64_t{0});  // a name that is a prefix of the part's
  state.put("sampler0", int64_t{0});
  const State before = part;
  const double* weights = part.get<double>("weights").data();
  state.put_part("sampler", std::move(part));
  EXPECT_EQ(state.get<double>("sampler/weights").data(), weights);  // moved, not copied
  EXPECT_EQ(state.get<double>("sampler/weights").size(), 2U);
  const State out = state.part("sampler");
  EXPECT_EQ(out.arrays(), before.arrays());
  EXPECT_EQ(out.part("inner").get_one<int64_t>("n"), 1);
  EXPECT_TRUE(state.part("absent").arrays().empty());
}

struct Inner : Stateful {
  int64_t n = 0;
  std::vector<float> row = {0, 0};

 private:
  void visit(StateFields& fields) override {
    fields.one("n", n);
    fields.fixed("row", row);
  }
};

struct Outer : Stateful {
  Inner deep, beside;
  double first = 0, second = 0;
  bool late = false;  // that an older version has not written

 private:
  void visit(StateFields& fields) override {
    fields.part("deep", deep);
    fields.same(beside);
    fields.numbers("two", {&first, &second});
    if (fields.has("late")) fields.one("late", late);
  }
};

struct Outermost : Stateful {
  Outer outer;

 private:
  void visit(StateFields& fields) override { fields.part("outer", outer); }
};

TEST(StateFields, NameComponentsWithinComponentsOnceForBothDirections) {
  Outermost kept;
  kept.outer.deep.n = 3;
  kept.outer.deep.row = {1, 2};
  kept.outer.beside.n = 4;
  kept.outer.first = 0.5;
  kept.outer.second = -1;
  kept.outer.late = true;
  State state;
  kept.save(state);
  std::vector<std::string> names;
  for (const auto& [name, array] : state.arrays()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"outer/deep/n", "outer/deep/row", "outer/late",
                                             "outer/n", "outer/row", "outer/two"}));
  EXPECT_EQ(state.get<double>("outer/two"), (std::vector<double>{0.5, -1}));
  Outermost read;
  read.load(state);
  EXPECT_EQ(read.outer.deep.n, 3);
  EXPECT_EQ(read.outer.deep.row, (std::vector<float>{1, 2}));
  EXPECT_EQ(read.outer.beside.n, 4);
  EXPECT_EQ(read.outer.first, 0.5);
  EXPECT_EQ(read.outer.second, -1);
  EXPECT_TRUE(read.outer.late);
}

TEST(StateFields, SayWhichFieldOfWhichComponentIsMissing) {
  State state;
  Outermost kept;
  kept.save(state);
  State older, broken, longer;
  for (const auto& [name, array] : state.arrays()) {
    if (name != "outer/late") older.insert(name, array);
    if (name != "outer/deep/n") broken.insert(name, array);
    longer.insert(name, array);
  }
  kept.outer.late = true;
  kept.load(older);
  EXPECT_TRUE(kept.outer.late);
  expect_error<IoError>([&] { kept.load(broken); }, {"'outer/deep/n' is missing"});
  longer.put("outer/two", std::vector<double>{1, 2, 3});
  expect_error<IoError>([&] { kept.load(longer); }, {"'outer/two' has 3 values, expected 2"});
}

}  // namespace
}  // namespace hanse
