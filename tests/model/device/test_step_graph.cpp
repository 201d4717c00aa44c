// When steps are run, recorded and replayed, by a recorder that writes down what it is told.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/device/step_graph.hpp"

namespace hanse {
namespace {

// A letter for each call: w starts work aside, r records, a digit replays so many steps, s is a
// step.
struct Told {
  std::string calls;
  bool refuses = false;
};

class FakeRecording final : public Recording {
 public:
  FakeRecording(Told& told, std::size_t steps) : told_(told), steps_(steps) {}
  void replay() override { told_.calls += std::to_string(steps_); }

 private:
  Told& told_;
  std::size_t steps_;
};

class FakeRecorder final : public GraphRecorder {
 public:
  explicit FakeRecorder(Told& told) : told_(told) {}

  void start(const Work& work) override {
    told_.calls += 'w';
    work();
  }
  void join() override {}
  std::unique_ptr<Recording> record(const Work& work) override {
    told_.calls += 'r';
    if (told_.refuses) throw std::runtime_error("no room\nbehind");
    const std::size_t before = told_.calls.size();
    work();
    return std::make_unique<FakeRecording>(told_, told_.calls.size() - before);
  }

 private:
  Told& told_;
};

struct Call {
  double mu;
  int64_t count;
};

std::string after(Told& told, const std::vector<Call>& calls, int64_t most = 4) {
  StepGraphs graphs(std::make_unique<FakeRecorder>(told), most);
  for (const auto& [mu, count] : calls) {
    graphs.run({mu, false, false, 1}, count,
               [&](int64_t steps) { told.calls.append(static_cast<std::size_t>(steps), 's'); });
  }
  return told.calls;
}

// The first step warms up; each graph is recorded once, and is as long as may be.
TEST(StepGraphs, RunRecordAndReplay) {
  Told told;
  EXPECT_EQ(after(told, {{0, 1}, {0, 1}, {0, 1}}), "wsrs11");
  Told equal;
  EXPECT_EQ(after(equal, {{0, 3}, {0, 3}, {0, 3}}), "wsrss2rsss33");
  Told longer;  // a step and 4 + 4 + 2 + 1; 4 + 4 + 2 + 1; 4 + 2 + 1; that again, in 4 + 3; and
                // again
  EXPECT_EQ(after(longer, {{0, 12}, {0, 11}, {0, 7}, {0, 7}, {0, 7}}),
            "wsrssss44rss2rs1"
            "4421"
            "421"
            "4rsss3"
            "43");
  Told none;
  EXPECT_EQ(after(none, {{0, 0}}), "");
}

// Steps of another kind have graphs of their own, and those of the first stay.
TEST(StepGraphs, EachKindIsRecordedOnce) {
  Told told;
  EXPECT_EQ(after(told, {{0, 2}, {0.5, 2}, {0, 1}, {0.5, 1}}),
            "wsrs1"
            "wsrs1"
            "1"
            "1");
}

TEST(StepGraphs, OtherAddressesAreRecordedAnew) {
  Told told;
  StepGraphs graphs(std::make_unique<FakeRecorder>(told), 1);
  const auto step = [&](int64_t) { told.calls += 's'; };
  graphs.run({}, 2, step);
  graphs.forget();
  graphs.run({}, 2, step);
  EXPECT_EQ(told.calls, "wsrs1wsrs1");
}

// The steps that could not be recorded are made, and no later ones are tried.
TEST(StepGraphs, GoOnWithoutARecording) {
  Told told{.refuses = true};
  testing::internal::CaptureStderr();
  EXPECT_EQ(after(told, {{0, 4}, {0, 1}, {1, 2}}),
            "wsrsss"
            "s"
            "ss");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("one by one: no room"), std::string::npos) << said;
  EXPECT_EQ(said.find("behind"), std::string::npos) << said;
  EXPECT_EQ(said.find("one by one"), said.rfind("one by one")) << said;
}

}  // namespace
}  // namespace hanse
