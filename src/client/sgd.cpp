#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/schedule.hpp"
#include "hanse/client/side_by_side.hpp"
#include "optimizer.hpp"

namespace hanse {

namespace {

class Sgd final : public LocalUpdate, private SideBySide {
 public:
  Sgd(const ClientOptions& options, const Federation& federation, Model& model)
      : options_(options),
        model_(model),
        batches_(options, federation),
        optimizer_(options, model.layout().n_trainable()) {
    state_ = optimizer_.state_blocks();
    const auto n = static_cast<std::size_t>(model.n_params());
    if (proximal()) origin_.resize(n);
    if (stores_gradient()) gradient_.resize(n);
    if (options.accumulate > 1) sum_.resize(n);
  }

  ClientOutcome train(const ClientTask& task) override {
    const std::span<const float> origin = task.anchor.empty() ? task.row : task.anchor;
    if (proximal()) std::copy(origin.begin(), origin.end(), origin_.begin());
    model_.receive(origin);
    optimizer_.start(task.row, task.state, origin_);
    const bool one_rate = options_.schedule.over == "rounds";
    double lr = learning_rate(options_, task.round);
    int64_t done = 0;  // mini-batches
    const ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      const int64_t all = batches_.steps(), group = options_.accumulate;
      if (!one_rate) {
        lr = step_size(options_, task.round, done / group, (all + group - 1) / group);
      }
      ++done;
      return step(task.row, batch, noise, lr, done % group == 0 || done == all);
    });
    optimizer_.finish(task.state);
    return outcome;
  }

  SideBySide* side_by_side() override {
    const bool plain =
        options_.accumulate == 1 && options_.optimizer.kind == "sgd" && state_width() == 0;
    return plain ? this : nullptr;
  }

 private:
  std::vector<CohortPass> passes() const override { return {{.mu = proximal() ? options_.mu : 0}}; }
  bool proximal() const { return options_.kind == "prox"; }
  bool stores_gradient() const {
    return options_.clip > 0 || options_.propfair.base > 0 || options_.accumulate > 1;
  }

  double step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr, bool last) {
    if (stores_gradient()) return stored_step(row, batch, noise, lr, last);
    if (optimizer_.is_plain() && !proximal()) {
      return model_.sgd_step(row, batch, noise, lr, options_.weight_decay);
    }
    optimizer_.next(lr, 1);
    return model_.step_by(row, batch, noise, optimizer_);
  }

  // h = s(F) g, the objective's gradient;  the optimizer's is h min(1, clip/|h|)
  double stored_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                     bool last) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    double scale = propfair_slope(options_.propfair, loss);
    if (options_.accumulate > 1) {
      accumulate(scale, batch.rows);
      if (!last) {
        model_.move_buffers(row);
        return loss;
      }
      std::swap(gradient_, sum_);
      std::fill(sum_.begin(), sum_.end(), 0.0F);
      scale = 1 / static_cast<double>(std::exchange(samples_, 0));
    }
    optimizer_.next(lr, scale * clip_scale(scale));
    optimizer_.apply(0, gradient_.data(), model_.layout().n_trainable());
    model_.move_buffers(row);
    return loss;
  }

  // Of mini-batches by their samples: as if they were one.
  void accumulate(double slope, int64_t samples) {
    const auto weight = static_cast<float>(slope * static_cast<double>(samples));
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += weight * gradient_[i];
    samples_ += samples;
  }

  double clip_scale(double slope) const {
    if (options_.clip <= 0) return 1;
    double squared = 0;
    for (const float g : gradient_) squared += static_cast<double>(g) * static_cast<double>(g);
    const double norm = slope * std::sqrt(squared);
    return norm > options_.clip ? options_.clip / norm : 1;
  }

  ClientOptions options_;
  Model& model_;
  BatchStream batches_;
  ClientOptimizer optimizer_;
  std::vector<float> gradient_;  // [P] where it is stored
  std::vector<float> sum_;       // [P] of the gradients since the last step, with accumulation
  int64_t samples_ = 0;          // in it
  std::vector<float> origin_;    // [P] what the proximal term pulls to
};

}  // namespace

std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model) {
  return std::make_unique<Sgd>(options, federation, model);
}

}  // namespace hanse
