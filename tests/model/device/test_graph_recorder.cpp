// The recorder of CUDA graphs on the GPU that pretends: in which order its streams run what they
// are given, and what is left behind a recording that fails. Ranks that are threads record at one
// time.
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "model/device/pretended/cuda/cuda_graphs.hpp"
#include "model/device/step_graph.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using pretended::Device;
using pretended::recordings;

class Recorder : public testing::Test {
 protected:
  void SetUp() override { recordings() = {}; }

  // Gives `name` to this thread's stream, which writes it down when it runs.
  void start(const std::string& name) {
    const std::lock_guard lock(device_.mutex);
    device_.start([this, name] { ran_ += name; }, {});
  }
  void wait() {
    const std::lock_guard lock(device_.mutex);
    device_.wait();
  }
  bool is_main() {
    const std::lock_guard lock(device_.mutex);
    return &device_.stream() == &device_.default_stream(0);
  }

  Device& device_ = Device::get();
  const int64_t held_ = device_.pool_holders();
  std::string ran_;
  std::unique_ptr<GraphRecorder> recorder_ = make_graph_recorder(false);
};

TEST_F(Recorder, NothingIsRecordedOnTheCpu) { EXPECT_EQ(make_graph_recorder(true), nullptr); }

// The stream aside waits for what was there, and the main one for the step; the host for neither.
// Streams that nobody orders run in any order: a hundred turns show one.
TEST_F(Recorder, StartsBetweenWhatIsThereAndWhatComes) {
  const int64_t waits = device_.counts.waits;
  for (int turn = 0; turn < 100; ++turn) {
    start("a");
    recorder_->start([&] {
      EXPECT_FALSE(is_main());
      start("b");
      start("c");
    });
    recorder_->join();
    EXPECT_TRUE(is_main());
    start("d");
  }
  EXPECT_EQ(ran_, "");
  EXPECT_EQ(device_.counts.waits, waits);
  wait();
  std::string expected;
  for (int turn = 0; turn < 100; ++turn) expected += "abcd";
  EXPECT_EQ(ran_, expected);
}

TEST_F(Recorder, RecordsAsideAndReplays) {
  auto recording = recorder_->record([&] {
    EXPECT_FALSE(is_main());
    start("a");
  });
  EXPECT_TRUE(is_main());
  EXPECT_EQ(device_.pool_holders(), held_ + 1);
  ran_.clear();
  recording->replay();
  start("b");
  recording->replay();
  wait();
  EXPECT_EQ(ran_, "aba");
  recording.reset();
  EXPECT_EQ(device_.pool_holders(), held_);
}

// A pool that nobody has is gone, and takes no further recording.
TEST_F(Recorder, RecordsAgainWhenAllIsGivenBack) {
  const int64_t refused = device_.counts.refused;
  const auto record = [&] { return recorder_->record([&] { start("a"); }); };
  auto one = record();
  auto other = record();
  one.reset();
  one = record();
  EXPECT_EQ(device_.pool_holders(), held_ + 2);
  one.reset();
  other.reset();
  other = record();
  EXPECT_EQ(device_.pool_holders(), held_ + 1);
  EXPECT_EQ(device_.counts.refused, refused);
}

// Whatever fails is told, and neither the allocator nor CUDA keeps anything of it: the step itself,
// a step that does what a recording cannot hold, and what ran before the recording began.
TEST_F(Recorder, NothingIsLeftOfARecordingThatFails) {
  const auto fail = [] { throw std::runtime_error("the step fails"); };
  const auto nothing = [] {};
  const auto expect_nothing_left = [&](int failed) {
    EXPECT_EQ(recordings().errors, failed);
    EXPECT_EQ(recordings().allocating, 0) << failed;
    EXPECT_EQ(recordings().open, 0) << failed;
    EXPECT_EQ(device_.pool_holders(), held_) << failed;
    EXPECT_TRUE(is_main());
  };
  expect_error<std::runtime_error>([&] { recorder_->record(fail); }, {"the step fails"});
  expect_nothing_left(1);
  EXPECT_THROW(recorder_->record([&] { wait(); }), std::exception);
  expect_nothing_left(2);
  {
    const std::lock_guard lock(device_.mutex);
    device_.start(fail, {});
  }
  expect_error<std::runtime_error>([&] { recorder_->record(nothing); }, {"the step fails"});
  expect_nothing_left(3);
  const auto recording = recorder_->record(nothing);
  EXPECT_EQ(device_.pool_holders(), held_ + 1);
}

// Neither while another one records nor while it gives a graph back.
TEST_F(Recorder, ThreadsRecordOneAfterTheOther) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([] {
      const auto recorder = make_graph_recorder(false);
      for (int i = 0; i < 50; ++i) {
        recorder->start([] {});
        recorder->join();
        recorder->record([] { std::this_thread::yield(); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recordings().most, 1);
  EXPECT_EQ(device_.pool_holders(), held_);
}

}  // namespace
}  // namespace hanse
