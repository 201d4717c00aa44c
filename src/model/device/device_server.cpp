#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "device/device.hpp"
#include "device/download.hpp"
#include "device/kernels.hpp"

namespace hanse {

namespace {

class ShardedServer final : public DeviceServer {
 public:
  ShardedServer(DeviceCommunicator& devices, int64_t rank, int64_t ranks, int64_t n_params,
                const std::string& device)
      : devices_(devices),
        n_(n_params),
        length_((n_params + ranks - 1) / ranks),
        begin_(std::min(rank * length_, n_params)),
        own_(std::min(length_, n_params - begin_)),
        padded_(length_ * ranks),
        floats_(at::TensorOptions(at::kFloat).device(at::Device(device))) {}

  void step(const EntryStep& step, const EntryStates& states, DeviceSum& sum,
            at::Tensor& theta) override {
    fetch(step.states(), states);
    const at::Tensor part = sum_of_part(sum.values());
    const bool is_exact = part.scalar_type() == at::kLong;
    const at::Tensor moved = at::zeros({length_}, floats_);
    moved.narrow(0, 0, own_).copy_(theta.narrow(0, begin_, own_));
    const StepWork work{.step = step,
                        .exact = is_exact ? part.data_ptr<int64_t>() : nullptr,
                        .fast = is_exact ? nullptr : part.data_ptr<float>(),
                        .theta = moved.data_ptr<float>(),
                        .first = row(0),
                        .second = row(1)};
    run(work, own_, moved.device());
    gather(moved, theta);
    sum.clear();
  }

  void collect(const EntryStates& states) override {
    at::Tensor whole = at::empty({n_}, floats_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      gather(rows_[i], whole);
      if (!states[i].empty()) download(whole, states[i].data());
    }
  }

  void forget() override {
    rows_.clear();
    has_rows_ = false;
  }

 private:
  float* row(std::size_t i) const {
    return i < rows_.size() ? rows_[i].data_ptr<float>() : nullptr;
  }

  // This rank's part of the sum, of `length` values on every rank; zeros follow the model's end.
  at::Tensor sum_of_part(const at::Tensor& values) {
    at::Tensor all = values;
    if (padded_ > n_) all = at::constant_pad_nd(values, {0, padded_ - n_});
    at::Tensor part = at::empty({length_}, values.options());
    devices_.reduce_scatter(all, part);
    return part;
  }

  void gather(const at::Tensor& part, at::Tensor& row) {
    at::Tensor all = padded_ > n_ ? at::empty({padded_}, floats_) : row;
    devices_.all_gather(part, all);
    if (padded_ > n_) row.copy_(all.narrow(0, 0, n_));
  }

  void fetch(int64_t count, const EntryStates& states) {
    if (has_rows_) return;
    has_rows_ = true;
    std::vector<float> on_host(static_cast<std::size_t>(count > 0 ? n_ : 0));
    at::Tensor whole = at::empty({std::ssize(on_host)}, floats_);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      std::copy(states[i].begin(), states[i].end(), on_host.begin());
      devices_.bcast(on_host, whole, 0);
      rows_.push_back(at::zeros({length_}, floats_));
      rows_.back().narrow(0, 0, own_).copy_(whole.narrow(0, begin_, own_));
    }
  }

  DeviceCommunicator& devices_;
  int64_t n_;       // P
  int64_t length_;  // of a rank's part, rounded up
  int64_t begin_;   // of this rank's part
  int64_t own_;     // entries of it that the model has
  int64_t padded_;  // ranks times length
  at::TensorOptions floats_;
  std::vector<at::Tensor> rows_;  // [length] each: the optimizer's
  bool has_rows_ = false;
};

}  // namespace

std::unique_ptr<DeviceServer> make_device_server(Communicator& comm, DeviceCommunicator& devices,
                                                 int64_t n_params, const std::string& device) {
  return std::make_unique<ShardedServer>(devices, comm.rank(), comm.size(), n_params, device);
}

}  // namespace hanse
