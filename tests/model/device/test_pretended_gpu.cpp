// What the GPU that pretends refuses, and what it does so that mistakes show.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "model/device/device.hpp"
#include "model/device/kernels.hpp"
#include "model/device/pretended/pretended_gpu.hpp"
#include "model/device/step_graph.hpp"
#include "model/device/upload.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const at::Device kGpu(at::kPrivateUse1, 0);
const at::TensorOptions kThere = at::TensorOptions(at::kFloat).device(kGpu);
const at::TensorOptions kPinned = at::TensorOptions(at::kFloat).pinned_memory(true);

const pretended::PretendedGpu& gpu() { return *pretended::pretended_gpu(); }

at::Tensor numbers(int64_t n) { return at::arange(n, at::TensorOptions(at::kDouble)).to(kGpu); }

void expect_refusal(const std::function<void()>& work, const std::vector<std::string>& parts) {
  try {
    work();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
    return;
  }
  ADD_FAILURE() << "nothing was refused: " << parts.front();
}

double first_of(const at::Tensor& tensor) { return tensor.flatten()[0].item().toDouble(); }

// sums[item] = from[item].
SumWork copies(const at::Tensor& from, const at::Tensor& to) {
  return {from.data_ptr<double>(), to.data_ptr<double>(), 1, 1};
}

// The one place that knows how a recorder is called.
class Recorded {
 public:
  explicit Recorded(const std::function<void()>& step) : recording_(recorder_->record(step)) {}
  void replay() { recording_->replay(); }

 private:
  std::unique_ptr<GraphRecorder> recorder_ = make_graph_recorder(false);
  std::unique_ptr<Recording> recording_;
};

TEST(PretendedGpu, IsFound) {
  ASSERT_EQ(gpus().size(), 1U);
  EXPECT_EQ(use_gpu(0, Precision::kFloat32), kGpu.str());
  EXPECT_EQ(make_graph_recorder(true), nullptr);
}

// --- Memory.

TEST(PretendedGpuDeathTest, TheHostCannotTouchItsMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // LibTorch has threads
  const at::Tensor there = at::zeros({4}, kThere);
  auto* const place = there.data_ptr<float>();
  EXPECT_DEATH([[maybe_unused]] volatile const float read = *place, "");
  EXPECT_DEATH(*place = 1, "");
}

TEST(PretendedGpu, FreshMemoryIsNoNumber) {
  for (int i = 0; i < 3; ++i) {  // the second time it was somebody's
    const at::Tensor fresh = at::empty({1000}, kThere);
    EXPECT_TRUE(fresh.isnan().all().item<bool>());
    fresh.fill_(1);
  }
  EXPECT_TRUE(at::empty({5}, kPinned).isnan().all().item<bool>());
}

TEST(PretendedGpu, IsFullAsGpusAre) {
  gpu().wait();
  const int64_t used = gpu().used_bytes();
  gpu().set_limit(used + (1 << 20));
  EXPECT_THROW(at::zeros({1 << 19}, kThere), c10::OutOfMemoryError);
  for (int i = 0; i < 8; ++i) {  // what is given back is there again
    at::zeros({1 << 17}, kThere).add_(1);
  }
  gpu().set_limit(int64_t{1} << 32);
  EXPECT_EQ(first_of(at::zeros({1 << 19}, kThere)), 0);
}

TEST(PretendedGpu, TellsWhatIsWrittenBehindATensor) {
  const at::Tensor from = numbers(9);
  at::Tensor short_one = at::zeros({8}, from.options());
  run(copies(from, short_one), 9, kGpu);
  short_one.reset();
  expect_error<std::runtime_error>([] { gpu().wait(); }, {"behind a tensor's end"});
}

// --- Kernels and operators.

TEST(PretendedGpu, KernelsGetAddressesOfTheDeviceAlone) {
  const at::Tensor there = numbers(4), here = at::zeros({4}, at::kDouble);
  expect_refusal([&] { run(copies(here, there), 4, kGpu); }, {"the host's memory"});
  expect_refusal([&] { run(copies(there, here), 4, kGpu); }, {"the host's memory"});
  double on_stack = 0;
  SumWork work = copies(there, there);
  work.sums = &on_stack;
  expect_refusal([&] { run(work, 1, kGpu); }, {"the host's memory"});
}

TEST(PretendedGpu, KernelsGetNoMemoryThatIsGivenBack) {
  const at::Tensor there = numbers(4);
  at::Tensor gone = at::zeros({4}, there.options());
  const SumWork work = copies(gone, there);
  gone.reset();
  gpu().wait();
  expect_refusal([&] { run(work, 4, kGpu); }, {"memory that no tensor has"});
}

// An item reads what its neighbour writes: in their order all would be the first one's.
TEST(PretendedGpu, ItemsRunInAnyOrder) {
  gpu().set_threads(1);  // a sanitizer would tell
  const auto shifted = [] {
    const at::Tensor values = numbers(101);
    run(SumWork{values.data_ptr<double>(), values.data_ptr<double>() + 1, 1, 1}, 100, kGpu);
    return values.cpu();
  };
  const at::Tensor one = shifted(), other = shifted();
  EXPECT_FALSE(at::equal(one, at::zeros_like(one)));
  EXPECT_FALSE(at::equal(one, other));
}

TEST(PretendedGpu, EveryItemRunsOnceOnAnyNumberOfThreads) {
  for (const int64_t threads : {1, 4}) {
    gpu().set_threads(threads);
    for (const int64_t n : {1, 2, 3, 7, 64, 1000}) {
      const at::Tensor from = numbers(n), to = at::zeros_like(from);
      run(copies(from, to), n, kGpu);
      EXPECT_TRUE(at::equal(to, from)) << n;
    }
  }
  gpu().set_threads(1);
}

TEST(PretendedGpu, OperatorsHaveTensorsOfOneDevice) {
  at::Tensor there = at::ones({4}, kThere);
  const at::Tensor here = at::ones({4});
  expect_refusal([&] { there.add_(here); }, {"on the same device"});
  expect_refusal([&] { at::mul(there, here); }, {"on the same device"});
  there.add_(at::scalar_tensor(2));  // a number
  EXPECT_EQ(first_of(there), 3);
}

TEST(PretendedGpu, OperatorsAreThoseOfTheCpu) {
  const at::Tensor a = at::arange(60).to(at::kFloat).view({3, 4, 5}).div_(7), b = a.transpose(1, 2);
  const at::Tensor on_gpu = at::bmm(a.to(kGpu), b.to(kGpu).contiguous());
  EXPECT_TRUE(at::equal(on_gpu.cpu(), at::bmm(a, b.contiguous())));
  at::Tensor sums = at::empty({3, 5}, kThere);
  at::sum_out(sums, a.to(kGpu), {1});
  EXPECT_TRUE(at::equal(sums.cpu(), at::sum(a, {1})));
  const at::Tensor images = at::ones({2, 3, 8, 8}), kernels = at::ones({4, 3, 3, 3});
  const at::Tensor convolved = at::conv2d(images.to(kGpu), kernels.to(kGpu));
  EXPECT_TRUE(at::equal(convolved.cpu(), at::conv2d(images, kernels)));
}

// --- Streams.

// What is pinned is read when the copy runs, and it runs as late as it may.
TEST(PretendedGpu, PinnedMemoryThatIsReusedTooEarlyShows) {
  const at::Tensor staging = at::ones({4}, kPinned);
  at::Tensor there = at::zeros({4}, kThere);
  there.copy_(staging, /*non_blocking=*/true);
  staging.fill_(2);
  EXPECT_EQ(first_of(there), 2);
  const at::Tensor plain = at::ones({4});
  there.copy_(plain, /*non_blocking=*/true);
  plain.fill_(2);
  EXPECT_EQ(first_of(there), 1);
}

TEST(PretendedGpu, PinnedMemoryStaysUntilItsCopyHasRun) {
  at::Tensor there = at::zeros({4}, kThere);
  there.copy_(at::full({4}, 3, kPinned), /*non_blocking=*/true);
  at::full({4}, 5, kPinned);
  EXPECT_EQ(first_of(there), 3);
}

TEST(PretendedGpu, WhatComesToPinnedMemoryIsThereBehindAWait) {
  const at::Tensor there = at::full({4}, 3, kThere), here = at::empty({4}, kPinned);
  here.copy_(there, /*non_blocking=*/true);
  EXPECT_TRUE(here.isnan().all().item<bool>());
  gpu().wait();
  EXPECT_EQ(first_of(here), 3);
  const at::Tensor plain = at::empty({4});
  plain.copy_(there, /*non_blocking=*/true);
  EXPECT_EQ(first_of(plain), 3);
}

// Adds one on another stream; `event`: behind what is there, and before what comes.
float add_aside(bool behind, bool before) {
  const c10::impl::VirtualGuardImpl guard(at::kPrivateUse1);
  const c10::Stream main = guard.getStream(kGpu), aside = guard.getStreamFromGlobalPool(kGpu);
  at::Tensor value = at::zeros({1}, kThere);
  gpu().wait();
  value.fill_(1);
  c10::Event first(at::kPrivateUse1), second(at::kPrivateUse1);
  first.record(main);
  if (behind) first.block(aside);
  {
    const c10::StreamGuard on(aside);
    value.add_(1);
  }
  second.record(aside);
  if (before) second.block(main);
  value.mul_(10);
  return value.item<float>();
}

TEST(PretendedGpu, StreamsWaitForEachOtherByEventsAlone) {
  int without_behind = 0, without_before = 0;
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(add_aside(true, true), 20);
    without_behind += add_aside(false, true) != 20 ? 1 : 0;
    without_before += add_aside(true, false) != 20 ? 1 : 0;
  }
  EXPECT_GT(without_behind, 5);
  EXPECT_GT(without_before, 5);
}

// --- Recordings.

TEST(PretendedGpu, ARecordingRunsWhenItIsReplayed) {
  at::Tensor value = at::ones({3}, kThere);
  const at::Tensor from = numbers(2), to = at::zeros_like(from);
  at::Tensor made;
  Recorded recorded([&] {
    value.add_(1);
    made = value * 10;
    run(copies(from, to), 2, kGpu);
  });
  EXPECT_EQ(first_of(value), 1);
  EXPECT_EQ(first_of(to[1]), 0);
  EXPECT_TRUE(made.isnan().all().item<bool>());
  for (int i = 0; i < 3; ++i) recorded.replay();
  EXPECT_EQ(first_of(value), 4);
  EXPECT_EQ(first_of(made), 40);
  EXPECT_EQ(first_of(to[1]), 1);
}

TEST(PretendedGpu, ARecordingKeepsItsNumbersAndAddresses) {
  at::Tensor value = at::zeros({1}, kThere);
  at::Tensor other = at::zeros({1}, kThere), addend = other;
  float number = 1;
  Recorded recorded([&] { value.add_(number).add_(addend); });
  number = 100;
  addend = at::full({1}, 1000, kThere);
  recorded.replay();
  EXPECT_EQ(first_of(value), 1);
  other.fill_(10);
  recorded.replay();
  EXPECT_EQ(first_of(value), 12);
}

TEST(PretendedGpu, OutputsGetTheirMemory) {
  const at::Tensor a = at::ones({2, 3}, kThere);
  at::Tensor sum = at::empty({0}, kThere), recorded_sum = at::empty({0}, kThere);
  at::sum_out(sum, a, {0});
  EXPECT_TRUE(at::equal(sum.cpu(), at::full({3}, 2.0F)));
  Recorded recorded([&] { at::sum_out(recorded_sum, a, {0}); });
  recorded.replay();
  EXPECT_TRUE(at::equal(recorded_sum.cpu(), at::full({3}, 2.0F)));
}

// Gradients are computed by threads of autograd.
TEST(PretendedGpu, ARecordingHoldsWhatAutogradStarts) {
  const at::Tensor leaf = at::full({2}, 3, kThere).requires_grad_();
  at::Tensor gradient = at::zeros({2}, kThere);
  const auto step = [&] {
    const at::Tensor value = (leaf * leaf).sum();
    value.backward();
    gradient.copy_(leaf.grad());
    leaf.mutable_grad().reset();
  };
  Recorded recorded(step);
  EXPECT_EQ(first_of(gradient), 0);
  leaf.detach().fill_(4);
  recorded.replay();
  EXPECT_EQ(first_of(gradient), 8);
}

TEST(PretendedGpu, ARecordingHoldsNothingOfTheHost) {
  at::Tensor value = at::ones({3}, kThere);
  const at::Tensor pinned = at::ones({3}, kPinned);
  const std::vector<std::function<void()>> steps{
      [&] { value[0].item<float>(); },
      [&] { value.cpu(); },
      [&] { value.copy_(at::ones({3})); },
      [&] { value.copy_(pinned, /*non_blocking=*/true); },
      [&] { pinned.copy_(value, /*non_blocking=*/true); },
      [&] { at::ones({3}, kPinned); },
      [&] { at::nonzero(value); },
      [&] { at::equal(value, value); },
      [&] { at::masked_select(value, value > 0); },
      [&] { staged({2}, at::kFloat, kGpu); },
      [&] {
        c10::impl::VirtualGuardImpl(at::kPrivateUse1)
            .synchronizeStream(c10::impl::VirtualGuardImpl(at::kPrivateUse1).getStream(kGpu));
      },
  };
  gpu().wait();
  const int64_t used = gpu().used_bytes();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int64_t refused = gpu().counts().refused;
    expect_refusal(
        [&] {
          Recorded recorded([&] {
            value.add_(1);
            steps[i]();
          });
        },
        {"a recording cannot hold"});
    EXPECT_GT(gpu().counts().refused, refused) << i;
    EXPECT_EQ(first_of(value), 1) << i;
    gpu().wait();
    EXPECT_EQ(gpu().used_bytes(), used) << i;
  }
}

// CUDA ends a recording whose refusal the step has hidden.
TEST(PretendedGpu, ARefusalThatIsHiddenEndsTheRecording) {
  at::Tensor value = at::ones({3}, kThere);
  const auto hidden = [&] {
    try {
      value[0].item<float>();
    } catch (const c10::Error&) {
    }
  };
  expect_refusal([&] { Recorded recorded(hidden); }, {"was refused"});
}

TEST(PretendedGpu, NobodyWaitsForTheDeviceWhileAThreadRecords) {
  std::mutex mutex;
  std::condition_variable turn;
  bool records = false, may_end = false;
  std::thread other([&] {
    Recorded recorded([&] {
      std::unique_lock lock(mutex);
      records = true;
      turn.notify_all();
      turn.wait(lock, [&] { return may_end; });
    });
  });
  {
    std::unique_lock lock(mutex);
    turn.wait(lock, [&] { return records; });
  }
  expect_refusal([] { gpu().wait(); }, {"while a thread records"});
  at::Tensor value = at::zeros({1}, kThere).add_(1);
  EXPECT_EQ(first_of(value), 1);  // the stream alone
  {
    const std::lock_guard lock(mutex);
    may_end = true;
  }
  turn.notify_all();
  other.join();
  EXPECT_EQ(first_of(value), 1);
  gpu().wait();
}

TEST(PretendedGpu, AGraphsMemoryIsGivenBack) {
  gpu().wait();
  const at::Tensor value = at::ones({1000}, kThere);
  const int64_t used = gpu().used_bytes();
  {
    at::Tensor sum = at::zeros({1000}, kThere);
    Recorded recorded([&] { sum.add_(value * 2 + 1); });
    recorded.replay();
    EXPECT_GT(gpu().used_bytes(), used + 4000);
    EXPECT_EQ(first_of(sum), 3);
  }
  gpu().wait();
  EXPECT_EQ(gpu().used_bytes(), used);
}

TEST(PretendedGpu, ARecorderGoesOnWhenItsRecordingsAreGone) {
  const auto recorder = make_graph_recorder(false);
  at::Tensor value = at::zeros({1}, kThere);
  for (int i = 1; i <= 3; ++i) {
    const auto recording = recorder->record([&] { value.add_(value * 0 + 1); });
    recording->replay();
    EXPECT_EQ(first_of(value), i);
  }
}

// --- Counts.

TEST(PretendedGpu, CountsWhatIsStarted) {
  const at::Tensor from = numbers(4), to = at::zeros_like(from), here = at::zeros({4}, at::kDouble);
  const pretended::Counts before = gpu().counts();
  run(copies(from, to), 4, kGpu);
  to.add_(1);
  to.copy_(from);
  EXPECT_EQ(gpu().counts().launches - before.launches, 3);
  EXPECT_EQ(gpu().counts().waits, before.waits);
  here.copy_(to);
  EXPECT_EQ(gpu().counts().downloads - before.downloads, 1);
  EXPECT_EQ(gpu().counts().downloaded_bytes - before.downloaded_bytes, 32);
  EXPECT_EQ(gpu().counts().waits - before.waits, 1);
  to.copy_(here);
  EXPECT_EQ(gpu().counts().uploads - before.uploads, 1);
  EXPECT_EQ(gpu().counts().uploaded_bytes - before.uploaded_bytes, 32);
  Recorded recorded([&] { to.add_(1).mul_(2); });
  recorded.replay();
  recorded.replay();
  EXPECT_EQ(gpu().counts().launches - before.launches, 3);
  EXPECT_EQ(gpu().counts().graphs - before.graphs, 1);
  EXPECT_EQ(gpu().counts().graph_launches - before.graph_launches, 2);
}

}  // namespace
}  // namespace hanse
