// Several GPUs that pretend: what lies on one of them is not another's, and sums between them.
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "model/device/device.hpp"
#include "model/device/kernels.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

at::Device gpu(int ordinal) { return {at::kPrivateUse1, static_cast<at::DeviceIndex>(ordinal)}; }

at::Tensor numbers(int64_t n) { return at::arange(n, at::TensorOptions(at::kDouble)).to(gpu(0)); }

double first_of(const at::Tensor& tensor) { return tensor.flatten()[0].item().toDouble(); }

void expect_refusal(const std::function<void()>& work, const std::string& part) {
  try {
    work();
    ADD_FAILURE() << "nothing was refused: " << part;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

// to[item] = from[item].
SumWork copies(const at::Tensor& from, const at::Tensor& to) {
  return {from.data_ptr<double>(), to.data_ptr<double>(), 1, 1};
}

TEST(SeveralPretendedGpus, DoNotShareMemory) {
  const at::Tensor here = numbers(3), there = here.to(gpu(1));
  EXPECT_EQ(there.device().index(), 1);
  EXPECT_EQ(first_of(there + there), 0);
  expect_refusal([&] { here.add_(there); }, "at least two devices");
  expect_refusal([&] { run_on_gpu(copies(here, there), 3); }, "GPU 0 is given memory of another");
  use_gpu(1, Precision::kFloat32);
  expect_refusal([&] { run_on_gpu(copies(here, here), 3); }, "GPU 1 is given memory of another");
  use_gpu(0, Precision::kFloat32);
}

// Each rank's GPU is its own; NCCL's sum waits for what the streams have.
TEST(SeveralPretendedGpus, SumByNccl) {
  run_threads(3, [](Communicator& comm) {
    const std::string device = use_gpu(comm.rank(), Precision::kFloat32);
    EXPECT_EQ(device, "privateuseone:" + std::to_string(comm.rank()));
    const auto devices = make_nccl_communicator(comm, device);
    at::Tensor values = at::ones({4}, at::TensorOptions(at::kFloat).device(device));
    for (int i = 0; i < comm.rank(); ++i) values.add_(1);
    devices->sum(values, 1);
    EXPECT_EQ(first_of(values), comm.rank() == 1 ? 1 + 2 + 3 : 1 + comm.rank());
    at::Tensor part = at::zeros({2}, values.options()), all = at::full({6}, 0.5, values.options());
    devices->reduce_scatter(all, part);
    EXPECT_EQ(first_of(part), 1.5);
    if (comm.size() == 3) devices->all_gather(part, all);
    EXPECT_EQ(first_of(all.sum()), 9);
  });
}

}  // namespace
}  // namespace hanse
