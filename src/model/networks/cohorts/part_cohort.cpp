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
      Tensor& tensor = tensors_.emplace_back(source.own, source.factors);
      if (source.own != kNone) continue;
      tensor.frozen =
          at::from_blob(const_cast<float*>(source.frozen), source.slot.shape, at::kFloat)
              .to(device, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      if (source.factors != kNone) tensor.gradient = at::empty_like(tensor.frozen);
    }
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor> masks) const override {
    return network_->logits(whole(leaves), input, masks);
  }
  std::vector<at::Tensor> whole(std::span<const at::Tensor> leaves) const override {
    const int64_t clients = leaves.front().size(0);
    std::vector<at::Tensor> all;
    for (const Tensor& tensor : tensors_) {
      if (tensor.own != kNone) {
        all.push_back(leaves[to_index(tensor.own)]);
        continue;
      }
      std::vector<int64_t> shape = tensor.frozen.sizes().vec();
      shape.insert(shape.begin(), clients);
      const at::Tensor frozen = tensor.frozen.unsqueeze(0).expand(shape);
      if (tensor.factors == kNone) {
        all.push_back(frozen);
        continue;
      }
      const auto first = to_index(tensor.factors);
      all.push_back(at::baddbmm(frozen, leaves[first + 1], leaves[first]));
    }
    return all;
  }

  ClientPasses* client_passes() override {
    return network_->client_passes() != nullptr ? this : nullptr;
  }
  bool can_be_recorded() const override { return network_->can_be_recorded(); }
  void check(const Batch& batch) const override { network_->check(batch); }

 private:
  static constexpr int64_t kNone = TensorSource::kNone;

  struct Tensor {
    int64_t own, factors;  // leaves, as TensorSource has them
    at::Tensor frozen = {};
    at::Tensor gradient = {};  // of W, with factors
  };

  bool draws() const override { return network_->client_passes()->draws(); }

  at::Tensor forward(const std::vector<at::Tensor>& leaves, const at::Tensor& samples,
                     uint64_t seed) override {
    factors_ = leaves;
    std::vector<at::Tensor> all;
    for (const Tensor& tensor : tensors_) {
      all.push_back(tensor.own != kNone       ? leaves[to_index(tensor.own)]
                    : tensor.factors != kNone ? tensor.frozen + at::mm(b(tensor), a(tensor))
                                              : tensor.frozen);
    }
    return network_->client_passes()->forward(all, samples, seed);
  }

  // dA = B^T dW,  dB = dW A^T
  void backward(const at::Tensor& delta, const std::vector<at::Tensor>& gradients) override {
    std::vector<at::Tensor> all;
    for (const Tensor& tensor : tensors_) {
      all.push_back(tensor.own != kNone ? gradients[to_index(tensor.own)] : tensor.gradient);
    }
    network_->client_passes()->backward(delta, all);
    for (const Tensor& tensor : tensors_) {
      if (tensor.factors == kNone) continue;
      at::Tensor da = gradients[to_index(tensor.factors)];
      at::Tensor db = gradients[to_index(tensor.factors) + 1];
      at::mm_out(da, b(tensor).t(), tensor.gradient);
      at::mm_out(db, tensor.gradient, a(tensor).t());
    }
  }

  void move_buffers(std::span<const at::Tensor> leaves) const override {
    std::vector<at::Tensor> all(tensors_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (tensors_[i].own != kNone) all[i] = leaves[to_index(tensors_[i].own)];
    }
    network_->client_passes()->move_buffers(all);
  }

  // The client's of the last forward().
  const at::Tensor& a(const Tensor& tensor) const { return factors_[to_index(tensor.factors)]; }
  const at::Tensor& b(const Tensor& tensor) const { return factors_[to_index(tensor.factors) + 1]; }

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
