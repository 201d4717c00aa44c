// The contrast of a model with the received one and the client's last one (MOON, Li et al. 2021).
#include <cmath>
#include <span>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "hanse/model/distillation.hpp"
#include "hanse/model/loss_math.hpp"
#include "loss.hpp"
#include "network_model.hpp"
#include "objective.hpp"

namespace hanse {

namespace {

// sim(z, b), the cosine, and what its derivative by z needs; 0 with the vector 0.
struct Similarity {
  std::span<const float> other;
  double of_other = 0;  // 1 / (|z| |b|)
  double of_own = 0;    // sim / |z|^2
  double value = 0;

  Similarity(std::span<const float> z, std::span<const float> b) : other(b) {
    const double own = inner_product(z, z), norms = std::sqrt(own * inner_product(b, b));
    if (!(norms > 0)) return;
    of_other = 1 / norms;
    value = inner_product(z, b) * of_other;
    of_own = value / own;
  }
};

class ModelContrast final : public Objective {
 public:
  ModelContrast(const NetworkModel& network, double mu, double tau)
      : mu_(mu),
        tau_(tau),
        width_(network.representation_width()),
        positions_(network.positions()),
        plain_(network.loss()) {}

  ObjectiveNeeds needs() const override {
    return {.representation = true, .received_representation = true, .last_representation = true};
  }
  std::span<const float> representation_gradient() const override { return gradient_; }

  double loss_and_delta(const ObjectiveStep& step, RandomStream&, float* logits) override {
    const Batch& batch = step.batch;
    double loss = plain_.loss_and_delta(batch, logits);
    gradient_.assign(to_index(batch.rows * positions_ * width_), 0.0F);
    const float* last = step.last_representation;
    if (last == nullptr) last = step.received_representation;  // no last model: it is this one
    for (int64_t place = 0; place < batch.rows * positions_; ++place) {
      const auto of = [&](const float* all) {
        return std::span(all + place * width_, to_index(width_));
      };
      loss += contrast(of(step.representation), of(step.received_representation), of(last),
                       batch.rows, gradient_.data() + place * width_);
    }
    return loss / static_cast<double>(batch.rows);
  }

 private:
  // mu l_con of a place, l_con = -log(e^(sim(z, z_glob)/tau) / (e^(sim(z, z_glob)/tau) +
  // e^(sim(z, z_prev)/tau)))  (eq. 3), in its share of a sample.
  double contrast(std::span<const float> z, std::span<const float> global,
                  std::span<const float> previous, int64_t rows, float* gradient) const {
    const Similarity near(z, global), far(z, previous);
    const double share = mu_ / static_cast<double>(positions_);
    const double u = (far.value - near.value) / tau_;  // l_con = log(1 + e^u)
    const auto small = static_cast<double>(exp_nonpositive(static_cast<float>(-std::abs(u))));
    const double likely = (u > 0 ? 1 : small) / (1 + small);  // of the previous model
    const double slope = share * likely / (tau_ * static_cast<double>(rows));
    const double own = near.of_own - far.of_own;
    for (std::size_t i = 0; i < z.size(); ++i) {
      gradient[i] = static_cast<float>(slope * (far.of_other * static_cast<double>(previous[i]) -
                                                near.of_other * static_cast<double>(global[i]) +
                                                own * static_cast<double>(z[i])));
    }
    return share * (std::max(u, 0.0) + log_from_one(1 + small));
  }

  double mu_, tau_;
  int64_t width_, positions_;
  const Loss& plain_;
  std::vector<float> gradient_;  // [rows, positions, width]
};

}  // namespace

void require_representation(const Model& model) {
  if (model.representation_width() > 0) return;
  throw InvalidArgument("the network has no hidden layer whose outputs represent a sample",
                        "model.kind",
                        "a network with a dense layer behind others, such as mlp; of a graph "
                        "hanse.export(..., representation=NAME) tells them");
}

void contrast_with_models(Model& model, double mu, double temperature) {
  require_representation(model);
  auto& network = dynamic_cast<NetworkModel&>(model);
  network.minimise(std::make_unique<ModelContrast>(network, mu, temperature));
}

}  // namespace hanse
