#include <array>
#include <numeric>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>

#include "device/device.hpp"
#include "device/download.hpp"

namespace hanse {

namespace {

// With one rank nothing leaves the device.
class StagedCommunicator final : public DeviceCommunicator {
 public:
  explicit StagedCommunicator(Communicator& comm) : comm_(comm) {}

  void sum(at::Tensor& values, int root) override {
    if (comm_.size() == 1) return;
    at::Tensor on_host = downloaded(values);
    const auto n = static_cast<std::size_t>(on_host.numel());
    if (on_host.scalar_type() == at::kLong) {
      comm_.reduce(std::span(on_host.data_ptr<int64_t>(), n), ReduceOp::kSum, root);
    } else {
      comm_.reduce(std::span(on_host.data_ptr<float>(), n), ReduceOp::kSum, root);
    }
    if (comm_.rank() == root) values.copy_(on_host);
  }

  void bcast(std::span<float> row, at::Tensor& on_device, int root) override {
    comm_.bcast(row, root);
    on_device.copy_(at::from_blob(row.data(), {static_cast<int64_t>(row.size())}, at::kFloat));
  }

  void reduce_scatter(const at::Tensor& values, at::Tensor& part) override {
    if (comm_.size() == 1) {
      part.copy_(values);
      return;
    }
    const at::Tensor on_host = downloaded(values);
    const bool is_exact = on_host.scalar_type() == at::kLong;
    const at::Tensor parts = is_exact ? exchanged<int64_t>(on_host, part.numel())
                                      : exchanged<float>(on_host, part.numel());
    part.copy_(at::sum(parts, {0}));
  }

  void all_gather(const at::Tensor& part, at::Tensor& values) override {
    if (comm_.size() == 1) {
      values.copy_(part);
      return;
    }
    const int64_t n = part.numel();
    const at::Tensor on_host = at::empty({values.numel()}, at::TensorOptions(at::kFloat));
    download(part, on_host.data_ptr<float>() + comm_.rank() * n);
    comm_.allgatherv(floats_of<float>(on_host), std::vector<int64_t>(ranks(), n));
    values.copy_(on_host);
  }

  void alltoallv(const at::Tensor& out, std::span<const int64_t> sends, at::Tensor& in,
                 std::span<const int64_t> receives) override {
    const auto rank = static_cast<std::size_t>(comm_.rank());
    const auto [out_before, out_own, out_behind] = split(out, sends);
    const auto [in_before, in_own, in_behind] = split(in, receives);
    in_own.copy_(out_own);
    if (comm_.size() == 1) return;
    std::vector<int64_t> to_others(sends.begin(), sends.end());
    std::vector<int64_t> from_others(receives.begin(), receives.end());
    to_others[rank] = from_others[rank] = 0;
    const at::Tensor outgoing = downloaded(at::cat({out_before, out_behind}));
    const at::Tensor incoming =
        at::empty({in_before.numel() + in_behind.numel()}, at::TensorOptions(at::kFloat));
    comm_.alltoallv(floats_of<const float>(outgoing), to_others, floats_of<float>(incoming),
                    from_others);
    in_before.copy_(incoming.narrow(0, 0, in_before.numel()));
    in_behind.copy_(incoming.narrow(0, in_before.numel(), in_behind.numel()));
  }

 private:
  template <class T>
  static std::span<T> floats_of(const at::Tensor& values) {
    return {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())};
  }

  std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }

  // [ranks, n]: what every rank's values [ranks * n] hold for this rank.
  template <class T>
  at::Tensor exchanged(const at::Tensor& values, int64_t n) {
    at::Tensor parts = at::empty({comm_.size(), n}, values.options());
    const auto all = static_cast<std::size_t>(values.numel());
    const std::vector<int64_t> counts(ranks(), n);
    comm_.alltoallv(std::span<const T>(values.data_ptr<T>(), all), counts,
                    std::span<T>(parts.data_ptr<T>(), all), counts);
    return parts;
  }

  // Splits values into the parts of the ranks before this one, of this one, and of those behind it.
  std::array<at::Tensor, 3> split(const at::Tensor& values, std::span<const int64_t> counts) const {
    const auto first = counts.begin() + comm_.rank();
    const int64_t before = std::accumulate(counts.begin(), first, int64_t{0});
    return {values.narrow(0, 0, before), values.narrow(0, before, *first),
            values.narrow(0, before + *first, values.numel() - before - *first)};
  }

  Communicator& comm_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_staged_communicator(Communicator& comm) {
  return std::make_unique<StagedCommunicator>(comm);
}

}  // namespace hanse
