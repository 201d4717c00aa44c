#include <exception>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <nccl.h>

#include "device/device.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(Communicator& comm, const std::string& device)
      : comm_(comm), rank_(comm.rank()), size_(comm.size()), device_(device) {
    const c10::cuda::CUDAGuard guard(device_);
    ncclUniqueId id{};
    agree_on(comm, [&] {
      if (rank_ == 0) check(ncclGetUniqueId(&id));
    });
    comm.bcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    comm.wait_until([&] {
      check(ncclCommInitRank(&nccl_, size_, id, rank_));
      return true;
    });
  }

  // Both of NCCL's ends wait for the other ranks, for half an hour: after an error, here or on the
  // way out of a rank that has one, they would keep it from being told. The process ends soon.
  ~NcclCommunicator() override {
    const bool unwinding = std::uncaught_exceptions() > exceptions_;
    if (nccl_ != nullptr && !failed_ && !unwinding) ncclCommDestroy(nccl_);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void sum(at::Tensor& values, int root) override {
    void* data = values.data_ptr();
    const auto n = static_cast<std::size_t>(values.numel());
    finish([&](cudaStream_t stream) {
      return ncclReduce(data, data, n, type_of(values), ncclSum, root, nccl_, stream);
    });
    count(values, root);
  }

  void bcast(std::span<float> row, at::Tensor& on_device, int root) override {
    const at::Tensor on_host =
        at::from_blob(row.data(), {static_cast<int64_t>(row.size())}, at::kFloat);
    if (rank_ == root) on_device.copy_(on_host);
    auto* data = on_device.data_ptr<float>();
    finish([&](cudaStream_t stream) {
      return ncclBroadcast(data, data, row.size(), ncclFloat32, root, nccl_, stream);
    });
    if (rank_ != root) on_host.copy_(on_device);
    count(on_device, root);
  }

  void reduce_scatter(const at::Tensor& values, at::Tensor& part) override {
    const auto n = static_cast<std::size_t>(part.numel());
    finish([&](cudaStream_t stream) {
      return ncclReduceScatter(values.data_ptr(), part.data_ptr(), n, type_of(values), ncclSum,
                               nccl_, stream);
    });
    bytes_moved_ += static_cast<int64_t>(part.nbytes()) * (size_ - 1);
  }

  void all_gather(const at::Tensor& part, at::Tensor& values) override {
    const auto n = static_cast<std::size_t>(part.numel());
    finish([&](cudaStream_t stream) {
      return ncclAllGather(part.data_ptr(), values.data_ptr(), n, type_of(part), nccl_, stream);
    });
    bytes_moved_ += static_cast<int64_t>(part.nbytes()) * (size_ - 1);
  }

  void alltoallv(const at::Tensor& out, std::span<const int64_t> sends, at::Tensor& in,
                 std::span<const int64_t> receives) override {
    const auto ranks = static_cast<std::size_t>(size_), own = static_cast<std::size_t>(rank_);
    std::vector<int64_t> from(ranks), to(ranks);
    std::exclusive_scan(sends.begin(), sends.end(), from.begin(), int64_t{0});
    std::exclusive_scan(receives.begin(), receives.end(), to.begin(), int64_t{0});
    in.narrow(0, to[own], receives[own]).copy_(out.narrow(0, from[own], sends[own]));
    const auto* outgoing = out.data_ptr<float>();
    auto* incoming = in.data_ptr<float>();
    finish([&](cudaStream_t stream) {
      check(ncclGroupStart());
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer == own) continue;
        const auto there = static_cast<int>(peer);
        const auto n_out = static_cast<std::size_t>(sends[peer]);
        const auto n_in = static_cast<std::size_t>(receives[peer]);
        if (n_out > 0) {
          check(ncclSend(outgoing + from[peer], n_out, ncclFloat32, there, nccl_, stream));
          bytes_moved_ += static_cast<int64_t>(n_out * sizeof(float));
        }
        if (n_in > 0) {
          check(ncclRecv(incoming + to[peer], n_in, ncclFloat32, there, nccl_, stream));
        }
      }
      return ncclGroupEnd();
    });
  }

 private:
  static ncclDataType_t type_of(const at::Tensor& values) {
    return values.scalar_type() == at::kLong ? ncclInt64 : ncclFloat32;
  }

  // Runs on LibTorch's stream, so behind what computes the buffers, and waits for its end: a rank
  // that waits in NCCL must not enter the next collective of MPI. Nothing of NCCL ends when a rank
  // does not come, neither the call, which may connect ranks, nor the stream: so both are under the
  // communicator's timeout.
  template <class Collective>
  void finish(Collective collective) {
    const c10::cuda::CUDAGuard guard(device_);
    const auto stream = c10::cuda::getCurrentCUDAStream();
    bool is_under_way = false;
    comm_.wait_until([&] {
      if (!is_under_way) {
        check_device(stream.stream());
        check(collective(stream.stream()));
      }
      is_under_way = true;
      ncclResult_t state = ncclSuccess;
      check(ncclCommGetAsyncError(nccl_, &state));
      check(state);
      return stream.query();
    });
  }

  void count(const at::Tensor& values, int root) {
    const auto bytes = static_cast<int64_t>(values.nbytes());
    if (rank_ == root) bytes_moved_ += bytes * (size_ - 1);
  }

  // An earlier kernel's error stays with the device; NCCL would only say that it saw one.
  void check_device(cudaStream_t stream) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code == cudaSuccess || code == cudaErrorNotReady) return;
    failed_ = true;
    throw CommError(fmt::format("the GPU failed: {}", cudaGetErrorString(code)), rank_, code);
  }

  void check(ncclResult_t code) {
    if (code == ncclSuccess) return;
    failed_ = true;
    throw CommError(fmt::format("NCCL: {}", ncclGetErrorString(code)), rank_, code);
  }

  Communicator& comm_;
  int rank_, size_;
  at::Device device_;
  ncclComm_t nccl_ = nullptr;
  bool failed_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator& comm,
                                                           const std::string& device) {
  return std::make_unique<NcclCommunicator>(comm, device);
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace hanse
