// A part of a network side by side: the whole network's pass, on tensors that the part's rows and
// what is frozen make.
#include <utility>
#include <vector>

#include "hanse/base/index.hpp"
#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

namespace {

class PartCohort final : public CohortForward, private ClientPasses {
 public:
  PartCohort(std::unique_ptr<CohortForward> network, const PartModel& part, at::Device device)
      : network_(std::move(network)) {
    dropouts_ = network_->dropouts();
    for (const TensorSource& source : sources_of(part)) {
      Tensor& tensor = tensors_.emplace_back();
      tensor.whole.own = source.own;
      if (source.own != kNone) continue;
      const auto copy = [&](const float* values, const std::vector<int64_t>& shape) {
        return at::from_blob(const_cast<float*>(values), shape, at::kFloat)
            .to(device, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      };
      const auto factor = [&](const TensorSource::Factor& from) {
        return Leaf{from.own, from.own == kNone ? copy(from.frozen, from.shape) : at::Tensor()};
      };
      tensor.whole.frozen = source.narrow == nullptr
                                ? copy(source.frozen, source.slot.shape)
                                : narrow_copy(source.narrow, source.slot.shape, device);
      tensor.is_adapted = source.is_adapted;
      if (!source.is_adapted) continue;
      tensor.a = factor(source.a);
      tensor.b = factor(source.b);
      tensor.scale = static_cast<double>(source.scale);
    }
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor> masks, at::Tensor* representation) const override {
    return network_->logits(whole(leaves), input, masks, representation);
  }
  std::vector<at::Tensor> whole(std::span<const at::Tensor> leaves) const override {
    std::vector<at::Tensor> all;
    for (const Tensor& tensor : tensors_) {
      all.push_back(tensor.whole.of_clients(leaves));
      if (!tensor.is_adapted) continue;
      all.back() = at::baddbmm(all.back().to(at::kFloat), tensor.b.of_clients(leaves),
                               tensor.a.of_clients(leaves), 1, tensor.scale);
    }
    return all;
  }

  ClientPasses* client_passes() override {
    return network_->client_passes() != nullptr ? this : nullptr;
  }
  FrozenPart* cut_as(const FrozenPart& host, const std::vector<at::Tensor>&) override {
    std::vector<at::Tensor> all;
    for (const Tensor& tensor : tensors_) {
      all.push_back(tensor.is_adapted ? at::Tensor() : tensor.whole.frozen);
    }
    return network_->cut_as(host, all);
  }
  bool can_be_recorded() const override { return network_->can_be_recorded(); }
  void check(const Batch& batch) const override { network_->check(batch); }

 private:
  static constexpr int64_t kNone = TensorSource::kNone;

  static at::Tensor narrow_copy(const uint16_t* values, const std::vector<int64_t>& shape,
                                at::Device device) {
    return at::from_blob(const_cast<uint16_t*>(values), shape, at::kBFloat16)
        .to(device, at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  }

  // A leaf, or what is frozen on the device, float32 or bfloat16.
  struct Leaf {
    int64_t own = kNone;
    at::Tensor frozen = {};

    template <class Leaves>
    const at::Tensor& in(const Leaves& leaves) const {
      return own == kNone ? frozen : leaves[to_index(own)];
    }
    // The same of every client, side by side.
    at::Tensor of_clients(std::span<const at::Tensor> leaves) const {
      if (own != kNone) return leaves[to_index(own)];
      std::vector<int64_t> shape = frozen.sizes().vec();
      shape.insert(shape.begin(), leaves.front().size(0));
      return frozen.unsqueeze(0).expand(shape);
    }
  };

  struct Tensor {
    Leaf whole;
    bool is_adapted = false;
    Leaf a = {}, b = {};
    double scale = 1;
  };

  bool draws() const override { return network_->client_passes()->draws(); }

  at::Tensor forward(const std::vector<at::Tensor>& leaves, const at::Tensor& samples,
                     MaskSource& masks) override {
    factors_ = leaves;
    std::vector<at::Tensor> all;
    for (const Tensor& tensor : tensors_) {
      const at::Tensor& whole = tensor.whole.in(leaves);
      if (!tensor.is_adapted) {
        all.push_back(whole);
        continue;
      }
      const at::Tensor product = at::mm(tensor.b.in(leaves), tensor.a.in(leaves));
      all.push_back(whole.to(at::kFloat) + (tensor.scale == 1 ? product : product * tensor.scale));
    }
    return network_->client_passes()->forward(all, samples, masks);
  }

  at::Tensor representation() const override { return network_->client_passes()->representation(); }

  // dA = s B^T dW,  dB = s dW A^T
  void backward(const at::Tensor& delta, const std::vector<at::Tensor>& gradients,
                const at::Tensor& of_representation) override {
    std::vector<at::Tensor> all;  // dW has memory of its own where W has factors
    for (const Tensor& tensor : tensors_) {
      const int64_t own = tensor.whole.own;
      all.push_back(own != kNone        ? gradients[to_index(own)]
                    : tensor.is_adapted ? at::empty(tensor.whole.frozen.sizes(), delta.options())
                                        : at::Tensor());
    }
    network_->client_passes()->backward(delta, all, of_representation);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      if (!tensor.is_adapted) continue;
      const auto finish = [&](int64_t own, const at::Tensor& x, const at::Tensor& y) {
        if (own == kNone) return;
        at::Tensor gradient = gradients[to_index(own)];
        at::mm_out(gradient, x, y);
        if (tensor.scale != 1) gradient.mul_(tensor.scale);
      };
      finish(tensor.a.own, tensor.b.in(factors_).t(), all[i]);
      finish(tensor.b.own, all[i], tensor.a.in(factors_).t());
    }
  }

  void move_buffers(std::span<const at::Tensor> leaves) const override {
    std::vector<at::Tensor> all(tensors_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int64_t own = tensors_[i].whole.own;
      if (own != kNone) all[i] = leaves[to_index(own)];
    }
    network_->client_passes()->move_buffers(all);
  }

  std::unique_ptr<CohortForward> network_;
  std::vector<Tensor> tensors_;      // of the network, in its layout's order
  std::vector<at::Tensor> factors_;  // leaves of the client whose pass runs
};

}  // namespace

std::unique_ptr<CohortForward> make_part_cohort(std::unique_ptr<CohortForward> network,
                                                const PartModel& part, const std::string& device) {
  return std::make_unique<PartCohort>(std::move(network), part, at::Device(device));
}

}  // namespace hanse
