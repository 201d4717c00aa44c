#include "hanse/comm/device_communicator.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

namespace hanse {

namespace {

class StagedCommunicator final : public DeviceCommunicator {
 public:
  explicit StagedCommunicator(Communicator& comm) : comm_(comm) {}

  void sum(at::Tensor& values, int root) override {
    at::Tensor on_host = values.cpu();  // the tensor itself, when it lies there
    const auto n = static_cast<std::size_t>(on_host.numel());
    comm_.reduce(std::span(on_host.data_ptr<int64_t>(), n), ReduceOp::kSum, root);
    if (comm_.rank() == root) values.copy_(on_host);
  }

  void bcast(std::span<float> row, at::Tensor& on_device, int root) override {
    comm_.bcast(row, root);
    on_device.copy_(at::from_blob(row.data(), {static_cast<int64_t>(row.size())}, at::kFloat));
  }

 private:
  Communicator& comm_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_staged_communicator(Communicator& comm) {
  return std::make_unique<StagedCommunicator>(comm);
}

}  // namespace hanse
