// model.kind = graph side by side on a device: one client after the other.
#include <memory>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/graphs/frozen_graph.hpp"
#include "networks/graphs/graph_passes.hpp"

namespace hanse {

namespace {

class GraphCohort final : public CohortForward, public ClientPasses {
 public:
  GraphCohort(const ModelCase& c, const std::string& device)
      : device_(device),
        passes_(c.options.path, device_, is_bfloat16(c.options)),
        outputs_({-1, c.loss->outputs()}) {
    if (c.loss->positions() > 1) outputs_.insert(outputs_.begin() + 1, c.loss->positions());
    try_out();
    passes_.drop_file();
  }

  bool can_be_recorded() const override { return false; }  // each client's passes are, for itself
  ClientPasses* client_passes() override { return this; }
  bool draws() const override { return passes_.draws(); }

  FrozenPart* cut_as(const FrozenPart& host, const std::vector<at::Tensor>& leaves) override {
    frozen_ = std::make_unique<FrozenGraph>(
        passes_, dynamic_cast<const FrozenGraph&>(host),
        [this, leaves](const float* samples, int64_t rows, GraphPasses::Values& values) {
          const at::Tensor x = at::from_blob(const_cast<float*>(samples), sample_shape(rows));
          begin(true, leaves, x.to(device_), values);
        });
    return frozen_.get();
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor>, at::Tensor* representation) const override {
    std::vector<at::Tensor> all, seen, own(leaves.size());
    for (int64_t client = 0; client < input.size(0); ++client) {
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = leaves[i][client];
      all.push_back(run(own, input[client], nullptr));
      if (representation != nullptr && passes_.representation().defined()) {
        seen.push_back(passes_.representation());
      }
    }
    if (!seen.empty()) *representation = at::stack(seen);
    return at::stack(all);
  }

  at::Tensor forward(const std::vector<at::Tensor>& leaves, const at::Tensor& samples,
                     MaskSource& masks) override {
    const at::Tensor logits = run(leaves, samples, &masks);
    moved_.clear();
    for (std::size_t i = 0; i < passes_.float_buffers(); ++i) {
      moved_.push_back(passes_.moved_buffer(values_, i));
    }
    return logits;
  }

  at::Tensor representation() const override { return passes_.representation(); }

  void backward(const at::Tensor& delta, const std::vector<at::Tensor>& gradients,
                const at::Tensor& of_representation) override {
    const at::NoGradGuard no_grad;
    const std::vector<int64_t>& found = passes_.file().training.gradients;
    std::vector<char> wanted(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      wanted[i] = gradients[i].defined() ? 1 : 0;
      const bool moves = frozen_ == nullptr || frozen_->moves(static_cast<int64_t>(i));
      if (gradients[i].defined() && (found[i] == kNoValue || !moves)) gradients[i].zero_();
    }
    passes_.backward(
        values_, delta.reshape(passes_.output_shape(delta.size(0))),
        frozen_ ? frozen_->schedule_of(wanted) : passes_.schedule_of(wanted),
        [&](int64_t i, const at::Tensor& gradient) { gradients[to_index(i)].copy_(gradient); },
        of_representation);
  }

  void move_buffers(std::span<const at::Tensor> leaves) const override {
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      leaves[passes_.trained().size() + i].copy_(moved_[i]);
    }
  }

 private:
  // Logits [n, outputs], or [n, positions, outputs], of samples [n, values]. `masks`: training.
  at::Tensor run(const std::vector<at::Tensor>& leaves, const at::Tensor& samples,
                 MaskSource* masks) const {
    const at::NoGradGuard no_grad;
    const bool training = masks != nullptr;
    if (frozen_ == nullptr) {
      begin(training, leaves, samples.reshape(sample_shape(samples.size(0))), values_);
      return passes_.forward(values_, masks).reshape(outputs_);
    }
    begin(training, leaves, samples, values_);
    frozen_->give(training, samples, values_);
    return passes_.forward(values_, masks, &frozen_->rest(training)).reshape(outputs_);
  }

  void begin(bool training, const std::vector<at::Tensor>& leaves, const at::Tensor& x,
             GraphPasses::Values& values) const {
    passes_.begin(training, x, values);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      values[to_index(passes_.leaves()[i])] = leaves[i];
      if (leaves[i].defined() && leaves[i].scalar_type() == at::kBFloat16) {
        passes_.read_narrow(passes_.leaves()[i]);
      }
    }
  }

  std::vector<int64_t> sample_shape(int64_t rows) const {
    std::vector<int64_t> shape = {rows};
    shape.insert(shape.end(), passes_.file().sample.begin(), passes_.file().sample.end());
    return shape;
  }

  // What runs on the CPU need not run elsewhere.
  void try_out() {
    const at::TensorOptions there(device_);
    std::vector<at::Tensor> leaves;
    for (std::size_t i = 0; i < passes_.leaves().size(); ++i) {
      leaves.push_back(at::zeros(passes_.leaf_shape(i), there));
    }
    const at::Tensor samples = at::zeros({2, size_of(passes_.file().sample)}, there);
    HostMasks masks(device_);
    try {
      run(leaves, samples, nullptr);
      backward(at::zeros_like(run(leaves, samples, &masks)), leaves, {});
    } catch (const std::exception& error) {
      throw InvalidArgument(fmt::format("{}, on {}", first_line(error), device_.str()), "",
                            "run.device = cpu");
    }
  }

  at::Device device_;
  mutable GraphPasses passes_;
  mutable GraphPasses::Values values_;
  std::vector<at::Tensor> moved_;        // buffers, by the last forward()
  std::vector<int64_t> outputs_;         // shape of the logits
  std::unique_ptr<FrozenGraph> frozen_;  // null: passes are not cut
};

}  // namespace

std::unique_ptr<CohortForward> make_graph_cohort(const ModelCase& c, const std::string& device) {
  return std::make_unique<GraphCohort>(c, device);
}

}  // namespace hanse
