// The passes of clients on streams of the GPU that pretends, whose work may run in any order that
// nobody forbids; and when passes are recorded.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/index.hpp"
#include "model/device/client_lanes.hpp"
#include "model/device/pretended/streams.hpp"

namespace hanse {
namespace {

using pretended::Device;

class Lanes : public testing::Test {
 protected:
  static ClientLanes make(int64_t lanes, int64_t most = 100) {
    std::vector<std::unique_ptr<GraphRecorder>> recorders;
    for (int64_t i = 0; i < lanes; ++i) recorders.push_back(make_graph_recorder(false));
    return {std::move(recorders), most};
  }

  // Gives `name` to this thread's stream, which writes it down when it runs.
  void start(char name) {
    const std::lock_guard lock(device_.mutex);
    device_.start([this, name] { ran_ += name; }, {});
  }
  void wait() {
    const std::lock_guard lock(device_.mutex);
    device_.wait();
  }
  // The passes of a client, two kernels: its letter, and that in lower case.
  ClientLanes::Work passes_of(int64_t client) {
    return [this, client] {
      const char name = static_cast<char>('A' + client);
      called_ += name;
      start(name);
      start(static_cast<char>(name - 'A' + 'a'));
    };
  }
  // Turns of clients between what stands before and behind; in the first two all is recorded, where
  // kernels run too.
  void turn(ClientLanes& lanes, int64_t clients, int turns) {
    for (int i = 0; i < turns; ++i) {
      start('(');
      for (int64_t client = 0; client < clients; ++client) {
        lanes.run({client, 4, true}, passes_of(client));
      }
      lanes.join();
      start(')');
    }
  }
  // What runs in so many steps.
  std::vector<std::string> steps(ClientLanes& lanes, int64_t clients, int turns) {
    turn(lanes, clients, 2);
    wait();
    ran_.clear();
    turn(lanes, clients, turns);
    wait();
    std::vector<std::string> all;
    const std::size_t size = to_index(2 * clients) + 2;
    for (std::size_t i = 0; i < ran_.size(); i += size) all.push_back(ran_.substr(i, size));
    ran_.clear();
    return all;
  }
  int64_t recorded() const { return device_.counts.graphs; }

  Device& device_ = Device::get();
  std::string ran_, called_;
};

// A step is what stands before, the clients' kernels, and what stands behind.
void expect_step(const std::string& step, int64_t clients) {
  ASSERT_EQ(step.size(), to_index(2 * clients) + 2) << step;
  EXPECT_EQ(step.front(), '(') << step;
  EXPECT_EQ(step.back(), ')') << step;
  for (int64_t client = 0; client < clients; ++client) {
    const char name = static_cast<char>('A' + client);
    const std::size_t first = step.find(name), second = step.find(static_cast<char>(name + 32));
    EXPECT_NE(second, std::string::npos) << step;
    EXPECT_LT(first, second) << step;
  }
}

TEST_F(Lanes, StandBetweenWhatIsThereAndWhatComes) {
  for (const int64_t most : {0, 100}) {  // called, and recorded
    ClientLanes lanes = make(3, most);
    const auto all = steps(lanes, 5, 100);
    ASSERT_EQ(all.size(), 100);
    for (const std::string& step : all) expect_step(step, 5);
  }
}

// The streams run what they like first; a lane's own clients keep their order.
TEST_F(Lanes, RunBesideEachOther) {
  ClientLanes lanes = make(2);
  std::map<std::string, int> orders;
  for (const std::string& step : steps(lanes, 4, 60)) {
    ++orders[step];
    EXPECT_LT(step.find('a'), step.find('C')) << step;
    EXPECT_LT(step.find('b'), step.find('D')) << step;
  }
  EXPECT_GT(orders.size(), 1);
}

// The first time it is called, the second time recorded, and later neither.
TEST_F(Lanes, RecordWhatComesAgain) {
  ClientLanes lanes = make(2);
  const int64_t before = recorded();
  for (int turn = 0; turn < 4; ++turn) {
    for (const int64_t client : {0, 1, 2}) lanes.run({client, 4, true}, passes_of(client));
    lanes.join();
  }
  EXPECT_EQ(called_, "ABCABC");
  EXPECT_EQ(recorded() - before, 3);
  wait();
  EXPECT_EQ(std::ranges::count(ran_, 'b'), 5);  // a recording calls, and its kernels run with it
}

// Other sizes and losses that do not count are other kinds; a lane records as many as it may.
TEST_F(Lanes, RecordSoMany) {
  ClientLanes lanes = make(1, 2);
  const int64_t before = recorded();
  for (int turn = 0; turn < 3; ++turn) {
    for (const int64_t samples : {4, 3, 2}) lanes.run({0, samples, true}, passes_of(0));
    lanes.run({0, 4, false}, passes_of(0));
    lanes.join();
  }
  EXPECT_EQ(recorded() - before, 2);
  EXPECT_EQ(called_.size(), 2 * 2 + 2 * 3);
  lanes.forget();
  for (int turn = 0; turn < 2; ++turn) lanes.run({0, 2, true}, passes_of(0));
  lanes.join();
  wait();
  EXPECT_EQ(recorded() - before, 3);
}

TEST_F(Lanes, NoneRunAtOnce) {
  ClientLanes lanes = make(0);
  const int64_t before = recorded();
  for (int turn = 0; turn < 3; ++turn) lanes.run({0, 4, true}, passes_of(0));
  lanes.join();
  wait();
  EXPECT_EQ(ran_, "AaAaAa");
  EXPECT_EQ(recorded(), before);
}

// One that cannot be recorded is made, and none is tried again on any lane.
TEST_F(Lanes, GoOnWithoutARecording) {
  ClientLanes lanes = make(2);
  const int64_t before = recorded();
  const auto refused = [&] {
    {
      const std::lock_guard lock(device_.mutex);
      device_.refuse_in_recording("a look at values");
    }
    start('A');
  };
  testing::internal::CaptureStderr();
  for (int turn = 0; turn < 3; ++turn) {
    lanes.run({0, 4, true}, refused);
    lanes.run({1, 4, true}, passes_of(1));
    lanes.join();
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("one by one: CUDA error 900"), std::string::npos) << said;
  EXPECT_EQ(said.find("one by one"), said.rfind("one by one")) << said;
  wait();
  EXPECT_EQ(std::ranges::count(ran_, 'A'), 3);
  EXPECT_EQ(std::ranges::count(ran_, 'b'), 3);
  EXPECT_EQ(recorded(), before);
}

}  // namespace
}  // namespace hanse
