// When a step is run, recorded and replayed, by a recorder that writes down what it is told.
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "model/device/step_graph.hpp"

namespace hanse {
namespace {

struct Told {
  std::string calls;  // a letter each
  bool refuses = false;
};

class FakeRecorder final : public GraphRecorder {
 public:
  explicit FakeRecorder(Told& told) : told_(told) {}

  void warm_up(const Step& step) override {
    told_.calls += 'w';
    step();
  }
  void record(const Step& step) override {
    told_.calls += 'r';
    if (told_.refuses) throw std::runtime_error("no room\nbehind");
    step();
  }
  void replay() override { told_.calls += 'p'; }

 private:
  Told& told_;
};

std::string after(Told& told, int steps, int forgotten_before = -1) {
  StepGraph graph(std::make_unique<FakeRecorder>(told));
  for (int i = 0; i < steps; ++i) {
    if (i == forgotten_before) graph.forget();
    graph.run([&] { told.calls += 's'; });
  }
  return told.calls;
}

TEST(StepGraph, RunsRecordsAndReplays) {
  Told told;
  EXPECT_EQ(after(told, 5), "wsrspppp");
}

// Recorded anew, after a step that warms up again.
TEST(StepGraph, AnotherStepIsRecordedAnew) {
  Told told;
  EXPECT_EQ(after(told, 6, 3), "wsrsppwsrspp");
  Told early;
  EXPECT_EQ(after(early, 3, 1), "wswsrsp");
}

// The step that could not be recorded is run, and no later one is tried, also after another one.
TEST(StepGraph, GoesOnWithoutARecording) {
  Told told{.refuses = true};
  testing::internal::CaptureStderr();
  EXPECT_EQ(after(told, 5, 3), "wsrssss");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("one by one: no room"), std::string::npos) << said;
  EXPECT_EQ(said.find("behind"), std::string::npos) << said;
  EXPECT_EQ(said.find("one by one"), said.rfind("one by one")) << said;
}

}  // namespace
}  // namespace hanse
