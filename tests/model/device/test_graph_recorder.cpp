// The recorder of CUDA graphs over what stands in for LibTorch's: in which order it asks for what,
// and what is left after a recording that fails. Ranks that are threads record at the same time.
#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/device/fake_graph/fake_graph.hpp"
#include "model/device/step_graph.hpp"
#include "support/errors.hpp"

namespace {

std::mutex captures_mutex;

template <class Change>
void change_captures(Change change) {
  const std::lock_guard lock(captures_mutex);
  change(hanse::fake::captures());
}

}  // namespace

namespace hanse::fake {

Captures& captures() {
  static Captures of_all;
  return of_all;
}

}  // namespace hanse::fake

int cudaGetLastError() {
  hanse::fake::calls().push_back("error taken");
  return 0;
}

namespace c10::cuda::CUDACachingAllocator {

void endAllocateToPool(int, Pool) {
  change_captures([](auto& all) {
    if (all.allocating == 0) throw std::runtime_error("not currently recording to the pool");
    --all.allocating;
  });
}

void releasePool(int, Pool pool) {
  change_captures([&](auto& all) { --all.pools, --all.of_pool[pool.second]; });
}

}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {

std::pair<uint64_t, uint64_t> graph_pool_handle() {
  std::pair<uint64_t, uint64_t> pool;
  change_captures([&](auto& all) { pool.second = ++all.pool_names; });
  return pool;
}

// As LibTorch's: the allocator is told before CUDA is asked, and of the end behind CUDA's answer.
void CUDAGraph::capture_begin(std::pair<uint64_t, uint64_t> pool, cudaStreamCaptureMode) {
  pool_ = pool.second;
  change_captures([&](auto& all) {
    const auto [used, is_new] = all.of_pool.try_emplace(pool_, 0);
    if (!is_new && used->second == 0) throw std::runtime_error("use_count > 0 INTERNAL ASSERT");
    ++used->second, ++all.allocating, ++all.pools;
  });
  hanse::fake::calls().push_back("begin on " + hanse::fake::name_of(hanse::fake::current_stream()));
  if (hanse::fake::faults().at_begin) throw std::runtime_error("cannot begin");
  is_open_ = true;
  change_captures([](auto& all) { all.most = std::max(all.most, ++all.open); });
}

void CUDAGraph::capture_end() {
  hanse::fake::calls().push_back("end on " + hanse::fake::name_of(hanse::fake::current_stream()));
  const bool was_open = std::exchange(is_open_, false);
  if (was_open) change_captures([](auto& all) { --all.open; });
  if (!was_open || hanse::fake::faults().at_end) throw std::runtime_error("cannot end");
  change_captures([](auto& all) { --all.allocating; });
  has_pool_ = true;
}

// LibTorch's generator has a list of the graphs, without a lock.
CUDAGraph::~CUDAGraph() {
  change_captures([](auto& all) { all.most = std::max(all.most, ++all.open); });
  std::this_thread::yield();
  change_captures([](auto& all) { --all.open; });
  if (has_pool_) change_captures([&](auto& all) { --all.pools, --all.of_pool[pool_]; });
}

}  // namespace at::cuda

namespace hanse {
namespace {

using Calls = std::vector<std::string>;

void note_step() { fake::calls().push_back("step on " + fake::name_of(fake::current_stream())); }

class Recorder : public testing::Test {
 protected:
  void SetUp() override {
    fake::calls().clear();
    fake::faults() = {};
    fake::captures() = {};
  }

  std::unique_ptr<GraphRecorder> recorder_ = make_graph_recorder(false);
};

TEST_F(Recorder, NothingIsRecordedOnTheCpu) { EXPECT_EQ(make_graph_recorder(true), nullptr); }

// The stream aside waits for what was there, and the main one for the step; the host for neither.
TEST_F(Recorder, WarmsUpBetweenWhatIsThereAndWhatComes) {
  recorder_->warm_up(note_step);
  EXPECT_EQ(fake::calls(),
            (Calls{"record main", "block aside", "step on aside", "record aside", "block main"}));
  EXPECT_EQ(fake::current_stream(), 0);
}

TEST_F(Recorder, RecordsAsideAndReplays) {
  auto recording = recorder_->record(note_step);
  recording->replay();
  EXPECT_EQ(fake::calls(), (Calls{"begin on aside", "step on aside", "end on aside", "replay"}));
  EXPECT_EQ(fake::current_stream(), 0);
  EXPECT_EQ(fake::captures().pools, 1);
  recording.reset();
  EXPECT_EQ(fake::captures().pools, 0);
}

// A pool that nobody has is gone.
TEST_F(Recorder, RecordsAgainWhenAllIsGivenBack) {
  auto one = recorder_->record(note_step);
  auto other = recorder_->record(note_step);
  EXPECT_EQ(fake::captures().of_pool.size(), 1U);
  one.reset();
  one = recorder_->record(note_step);
  EXPECT_EQ(fake::captures().of_pool.size(), 1U);
  one.reset();
  other.reset();
  other = recorder_->record(note_step);
  EXPECT_EQ(fake::captures().of_pool.size(), 2U);
}

// Whatever fails is told, and neither the allocator nor CUDA keeps anything of it.
TEST_F(Recorder, NothingIsLeftOfARecordingThatFails) {
  const auto refuse = [] { throw std::runtime_error("the step fails"); };
  for (const bool at_end : {false, true}) {
    fake::faults() = {.at_end = at_end};
    expect_error<std::runtime_error>([&] { recorder_->record(refuse); }, {"the step fails"});
    EXPECT_EQ(fake::calls().back(), "error taken");
    EXPECT_EQ(fake::captures().allocating, 0) << at_end;
    EXPECT_EQ(fake::captures().open, 0) << at_end;
    EXPECT_EQ(fake::captures().pools, 0) << at_end;
  }
  for (const fake::Faults& faults : {fake::Faults{.at_begin = true}, {.at_end = true}}) {
    fake::faults() = faults;
    expect_error<std::runtime_error>([&] { recorder_->record(note_step); }, {"cannot "});
    EXPECT_EQ(fake::captures().allocating, 0) << faults.at_begin;
    EXPECT_EQ(fake::captures().pools, 0) << faults.at_begin;
  }
  fake::faults() = {};
  const auto recording = recorder_->record(note_step);
  EXPECT_EQ(fake::captures().pools, 1);
}

// Neither while another one records nor while it gives a graph back.
TEST_F(Recorder, ThreadsRecordOneAfterTheOther) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([] {
      const auto recorder = make_graph_recorder(false);
      for (int i = 0; i < 50; ++i) {
        recorder->warm_up([] {});
        recorder->record([] { std::this_thread::yield(); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake::captures().most, 1);
  EXPECT_EQ(fake::captures().pools, 0);
}

}  // namespace
}  // namespace hanse
