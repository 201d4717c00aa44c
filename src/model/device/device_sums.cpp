#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "device/device.hpp"
#include "device/download.hpp"
#include "device/kernels.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// The facts of a kept update: the squared norm of its first `trained` values, and 1 when all of it
// is finite.
at::Tensor facts(const at::Tensor& delta, int64_t trained) {
  return at::stack(
      {at::sum(delta.narrow(0, 0, trained).square()), delta.isfinite().all().to(at::kDouble)});
}

// Brings `parts` and what comes along to the host's memory at once; returns the parts' numbers.
at::Tensor brought(std::vector<at::Tensor> parts, const Along& along) {
  if (along.from != nullptr) parts.push_back(*along.from);
  const at::Tensor all = downloaded(at::cat(parts));
  const auto n = static_cast<int64_t>(along.to.size());
  std::copy_n(all.data_ptr<double>() + all.numel() - n, n, along.to.begin());
  return all.narrow(0, 0, all.numel() - n);
}

std::vector<FoldResult> results_of(const std::vector<at::Tensor>& facts, const Along& along) {
  const at::Tensor on_host = brought(facts, along);
  const auto* numbers = on_host.data_ptr<double>();
  std::vector<FoldResult> results;
  for (std::size_t i = 0; i < facts.size(); ++i, numbers += 2) {
    results.push_back(
        {.squared_norm = numbers[0], .in_range = numbers[1] == 1 && std::isfinite(numbers[0])});
  }
  return results;
}

class DeviceSumOfTensors final : public DeviceSum {
 public:
  DeviceSumOfTensors(int64_t n_params, int64_t addends, Reduction reduction,
                     const std::string& device)
      : exact_(reduction == Reduction::kExact),
        limit_(UpdateSum::limit(addends) * UpdateSum::kUnits),
        sum_(at::zeros(
            {n_params},
            at::TensorOptions(exact_ ? at::kLong : at::kFloat).device(at::Device(device)))) {}

  std::vector<FoldResult> fold(const at::Tensor& rows, const at::Tensor& theta,
                               std::span<const double> coefficients, int64_t begin,
                               const Along& along) override {
    std::vector<FoldResult> results;
    for (std::size_t first = 0; first < coefficients.size(); first += FoldWork::kMost) {
      const auto some = coefficients.subspan(
          first, std::min<std::size_t>(FoldWork::kMost, coefficients.size() - first));
      const bool is_last = first + some.size() == coefficients.size();
      const at::Tensor part = rows.narrow(0, static_cast<int64_t>(first), std::ssize(some));
      const auto found = fold_some(part, theta, some, begin, is_last ? along : Along());
      results.insert(results.end(), found.begin(), found.end());
    }
    return results;
  }

  std::vector<FoldResult> fold_model(const at::Tensor& rows, const at::Tensor& theta,
                                     std::span<const double> coefficients, int64_t trained,
                                     const Along& along) override {
    if (theta.defined() && theta.dim() > 1) {
      const int64_t n = std::ssize(coefficients);
      return fold_model(rows.narrow(0, 0, n) - theta.narrow(0, 0, n), {}, coefficients, trained,
                        along);
    }
    const int64_t buffers = rows.size(1) - trained;
    if (buffers == 0) return fold(rows, theta, coefficients, 0, along);
    const auto part_of_theta = [&](int64_t begin, int64_t size) {
      return theta.defined() ? theta.narrow(0, begin, size) : theta;
    };
    const auto moved = fold(rows.narrow(1, trained, buffers), part_of_theta(trained, buffers),
                            coefficients, trained, {});
    auto found =
        fold(rows.narrow(1, 0, trained), part_of_theta(0, trained), coefficients, 0, along);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].in_range = found[i].in_range && moved[i].in_range;
    }
    return found;
  }

  void scale(double factor) override {
    if (exact_) {
      sum_.copy_(sum_.to(at::kDouble).mul_(factor).round_());
    } else {
      sum_.mul_(static_cast<float>(factor));
    }
  }

  void reduce(DeviceCommunicator& comm, int root) override { comm.sum(sum_, root); }

  void take(std::span<float> out) override {
    const at::Tensor sum =
        exact_ ? sum_.to(at::kDouble).mul_(1 / UpdateSum::kUnits).to(at::kFloat) : sum_;
    download(sum, out.data());
    clear();
  }

  void clear() override { sum_.zero_(); }
  const at::Tensor& values() const override { return sum_; }

 private:
  std::vector<FoldResult> fold_some(const at::Tensor& rows, const at::Tensor& theta,
                                    std::span<const double> coefficients, int64_t begin,
                                    const Along& along) {
    const at::Tensor sum = sum_.narrow(0, begin, rows.size(1));
    FoldWork work{.rows = rows.data_ptr<float>(),
                  .theta = theta.defined() ? theta.data_ptr<float>() : nullptr,
                  .stride = rows.stride(0),
                  .clients = rows.size(0),
                  .n = rows.size(1),
                  .limit = limit_,
                  .exact = exact_ ? sum.data_ptr<int64_t>() : nullptr,
                  .fast = exact_ ? nullptr : sum.data_ptr<float>(),
                  .along = along.from != nullptr ? along.from->data_ptr<double>() : nullptr,
                  .n_along = std::ssize(along.to)};
    for (std::size_t i = 0; i < coefficients.size(); ++i) {
      work.scales[i] = coefficients[i] * (exact_ ? UpdateSum::kUnits : 1);
    }
    const int64_t blocks = work.blocks(), facts = 2 * work.clients * blocks;
    const at::Tensor found = at::empty({facts + work.n_along}, sum_.options().dtype(at::kDouble));
    work.facts = found.data_ptr<double>();
    run(work, blocks, sum_.device());
    const at::Tensor on_host = downloaded(found);
    const auto* numbers = on_host.data_ptr<double>();
    std::copy_n(numbers + facts, work.n_along, along.to.begin());
    std::vector<FoldResult> results;
    for (int64_t c = 0; c < work.clients; ++c) {
      const double* norms = numbers + c * blocks;
      const double* misfits = norms + work.clients * blocks;
      const double squared = std::accumulate(norms, norms + blocks, 0.0);
      results.push_back({.squared_norm = squared,
                         .in_range = std::accumulate(misfits, misfits + blocks, 0.0) == 0 &&
                                     std::isfinite(squared)});
    }
    return results;
  }

  bool exact_;
  double limit_;    // of an addend, in units of 2^-44
  at::Tensor sum_;  // [P] int64, in units of 2^-44, or float32
};

class DeviceUpdatesOfTensors final : public DeviceUpdates {
 public:
  DeviceUpdatesOfTensors(Communicator& comm, DeviceCommunicator& devices,
                         std::vector<RowPart> layers, int64_t trained, const std::string& device)
      : comm_(comm),
        devices_(devices),
        device_(device),
        layers_(std::move(layers)),
        trained_(trained),
        blocks_(comm, layers_) {}

  std::vector<FoldResult> keep(const at::Tensor& rows, const at::Tensor& theta,
                               std::span<const int64_t> positions, const Along& along) override {
    const auto n = static_cast<int64_t>(positions.size());
    const at::Tensor made = rows.narrow(0, 0, n);
    const at::Tensor& origin = theta.defined() && theta.dim() > 1 ? theta.narrow(0, 0, n) : theta;
    const at::Tensor& updates = kept_.emplace_back(origin.defined() ? made - origin : made.clone());
    positions_.insert(positions_.end(), positions.begin(), positions.end());
    std::vector<at::Tensor> found;
    for (int64_t i = 0; i < n; ++i) {
      const at::Tensor delta = updates[i].to(at::kDouble);
      found.push_back(facts(delta, trained_));
    }
    return results_of(found, along);
  }

  std::vector<double> gram(int64_t k) override {
    blocks_.learn_owners(positions_, k);
    // [K] the place of each position's row in what comes by exchange(): positions are 0 to K - 1.
    auto* positions = const_cast<int64_t*>(blocks_.positions().data());
    const at::Tensor order =
        at::argsort(at::from_blob(positions, {k}, at::kLong)).to(at::Device(device_));
    std::vector<at::Tensor> products;  // [K, K] of this rank's blocks
    for (int64_t first = 0; first < blocks_.size(); first += comm_.size()) {
      const at::Tensor arrived = exchange(first);
      if (arrived.numel() == 0) continue;
      const at::Tensor rows = arrived.index_select(0, order).to(at::kDouble);
      products.push_back(at::mm(rows, rows.t()));
    }
    GramSums sums(comm_, blocks_);
    auto product = products.begin();
    for (int64_t first = 0; first < blocks_.size(); first += comm_.size()) {
      if (product != products.end()) {
        const at::Tensor on_host = downloaded(*product);
        *product++ = at::Tensor();
        append_lower({on_host.data_ptr<double>(), static_cast<std::size_t>(k * k)}, k,
                     sums.products());
      }
      sums.next(first);
    }
    return sums.matrices();
  }

  int64_t fold(std::span<const double> coefficients, int64_t k, DeviceSum& sum) override {
    int64_t broken = -1;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const RowPart part = layers_[layer];
      const double* weights = coefficients.data() + layer * static_cast<std::size_t>(k);
      auto position = positions_.begin();
      for (const at::Tensor& updates : kept_) {
        const std::span<const int64_t> own(position, position + updates.size(0));
        const at::Tensor values = updates.narrow(1, part.begin, part.size());
        for (const auto& [begin, end] : runs_that_count(own, weights)) {
          std::vector<double> chosen;
          for (int64_t i = begin; i < end; ++i) chosen.push_back(weights[own[to_index(i)]]);
          const auto folded =
              sum.fold(values.narrow(0, begin, end - begin), {}, chosen, part.begin);
          for (std::size_t i = 0; i < folded.size(); ++i) {
            if (!folded[i].in_range) broken = own[to_index(begin) + i];
          }
        }
        position += updates.size(0);
      }
    }
    clear();
    return broken;
  }

  void clear() override {
    kept_.clear();
    positions_.clear();
  }

 private:
  // Neighbours among these positions whose coefficients are not 0: 0 NaN is NaN.
  static std::vector<std::pair<int64_t, int64_t>> runs_that_count(
      std::span<const int64_t> positions, const double* weights) {
    std::vector<std::pair<int64_t, int64_t>> runs;
    for (int64_t i = 0; i < std::ssize(positions); ++i) {
      if (weights[positions[to_index(i)]] == 0) continue;
      if (runs.empty() || runs.back().second != i) runs.emplace_back(i, i);
      runs.back().second = i + 1;
    }
    return runs;
  }

  // Sends block first_block + r of all rows to rank r. Returns this rank's [K, L], one rank's rows
  // after another's; empty without a block.
  at::Tensor exchange(int64_t first_block) {
    const auto floats = at::TensorOptions(at::kFloat).device(device_);
    const int64_t length = blocks_.at(first_block + comm_.rank()).size();
    std::vector<int64_t> sends, receives;
    std::vector<at::Tensor> out{at::empty({0}, floats)};
    for (int64_t rank = 0; rank < comm_.size(); ++rank) {
      const RowPart theirs = blocks_.at(first_block + rank);
      for (const at::Tensor& updates : kept_) {
        out.push_back(updates.narrow(1, theirs.begin, theirs.size()).flatten());
      }
      sends.push_back(theirs.size() * static_cast<int64_t>(positions_.size()));
      receives.push_back(length * blocks_.rows_of()[static_cast<std::size_t>(rank)]);
    }
    const auto k = static_cast<int64_t>(blocks_.positions().size());
    at::Tensor in = at::empty({k, length}, floats);
    at::Tensor flat = in.view({-1});
    devices_.alltoallv(at::cat(out), sends, flat, receives);
    return in;
  }

  Communicator& comm_;
  DeviceCommunicator& devices_;
  std::string device_;
  std::vector<RowPart> layers_;
  int64_t trained_;  // values of an update, in front of its buffers
  GramBlocks blocks_;
  std::vector<at::Tensor> kept_;    // [n, P] each; positions_.size() rows in all
  std::vector<int64_t> positions_;  // of those rows
};

}  // namespace

std::unique_ptr<DeviceSum> make_device_sum(int64_t n_params, int64_t addends, Reduction reduction,
                                           const std::string& device) {
  return std::make_unique<DeviceSumOfTensors>(n_params, addends, reduction, device);
}

std::unique_ptr<DeviceUpdates> make_device_updates(Communicator& comm, DeviceCommunicator& devices,
                                                   std::vector<RowPart> layers, int64_t trained,
                                                   const std::string& device) {
  return std::make_unique<DeviceUpdatesOfTensors>(comm, devices, std::move(layers), trained,
                                                  device);
}

}  // namespace hanse
