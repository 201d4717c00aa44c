#include <cmath>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/client/passes.hpp"
#include "hanse/client/updates.hpp"
#include "stored_gradient.hpp"

namespace hanse {

namespace {

// (1 - m) grad F(w~) + m D
class SharpGradient final : public StoredGradient {
 public:
  SharpGradient(const ClientOptions& options, Model& model)
      : model_(model),
        rho_(options.second_order.rho),
        momentum_(static_cast<float>(options.global_momentum)) {
    if (rho_ > 0) above_.resize(to_index(model.n_params()));
  }

  void start(const ClientTask& task) override { direction_ = task.control; }

  double find(std::span<const float> row, const Batch& batch, RandomStream& noise,
              std::span<float> gradient) override {
    const double loss = rho_ > 0 ? find_above(row, batch, noise, gradient)
                                 : model_.loss_and_gradient(row, batch, noise, gradient);
    for (std::size_t i = 0; i + 1 < direction_.size(); ++i) {
      gradient[i] = (1 - momentum_) * gradient[i] + momentum_ * direction_[i];
    }
    return loss;
  }

 private:
  double find_above(std::span<const float> row, const Batch& batch, RandomStream& noise,
                    std::span<float> gradient) {
    RandomStream masks = noise;
    const double loss = model_.loss_and_gradient(row, batch, masks, gradient);
    double squared = 0;
    for (const float g : gradient) squared += static_cast<double>(g) * static_cast<double>(g);
    const auto scale = static_cast<float>(squared > 0 ? rho_ / std::sqrt(squared) : 0);
    for (std::size_t i = 0; i < row.size(); ++i) above_[i] = row[i] + scale * gradient[i];
    Batch again = batch;
    again.sample_losses = nullptr;
    model_.loss_and_gradient(above_, again, noise, gradient);
    return loss;
  }

  Model& model_;
  double rho_;
  float momentum_;
  std::span<const float> direction_;  // [trainable + 1] D; empty: none
  std::vector<float> above_;          // [P] w~
};

std::unique_ptr<StoredGradient> gradient_of(const ClientOptions& options, Model& model) {
  const bool is_sgd = options.second_order.rho == 0 && options.global_momentum == 0;
  return is_sgd ? nullptr : std::make_unique<SharpGradient>(options, model);
}

class FedSam final : public PassUpdate {
 public:
  FedSam(const ClientOptions& options, const Federation& federation, Model& model)
      : PassUpdate(options, federation, model,
                   {{.looks_back = options.global_momentum > 0,
                     .keeps_start = options.global_momentum > 0}},
                   gradient_of(options, model)),
        federation_(federation),
        width_(options.global_momentum > 0 ? model.layout().n_trainable() + 1 : 0) {}

  int64_t control_width() const override { return width_; }
  int64_t control_block() const override { return width_; }

  // (theta - theta_i) / (K lr), and behind it 1
  bool after(std::size_t, const ClientTask& task, std::span<const float> start,
             std::span<const float>) override {
    const int64_t samples = federation_.train(task.client).size();
    const auto inverse_path = static_cast<float>(1 / steps().path(task.round, samples, task.steps));
    const std::size_t trained = task.control_change.size() - 1;
    for (std::size_t i = 0; i < trained; ++i) {
      task.control_change[i] = (start[i] - task.row[i]) * inverse_path;
    }
    task.control_change[trained] = 1;
    return false;
  }

 private:
  const Federation& federation_;
  int64_t width_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_fedsam(const ClientOptions& options, const Federation& federation,
                                         Model& model) {
  return std::make_unique<FedSam>(options, federation, model);
}

}  // namespace hanse
