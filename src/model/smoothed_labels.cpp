// Cross-entropy with label smoothing (Szegedy et al. 2016) and class weights.
#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "loss.hpp"
#include "network_model.hpp"

namespace hanse {

namespace {

class SmoothedLabels final : public Objective {
 public:
  SmoothedLabels(double share, int64_t classes, int64_t positions)
      : share_(static_cast<float>(share)),
        classes_(classes),
        positions_(positions),
        plain_(make_loss("cross-entropy", classes)) {}

  double loss_and_delta(const ObjectiveStep& step, RandomStream&, float* logits) override {
    const Batch& batch = step.batch;
    const int64_t places = batch.rows * positions_;
    float total = 0;
    for (int64_t r = 0; r < places; ++r) total += weight(batch, batch.labels[r]);
    if (total == 0) {
      std::fill_n(logits, places * classes_, 0.0F);
      return 0;
    }
    double loss = 0;
    for (int64_t r = 0; r < places; ++r) {
      float* z = logits + r * classes_;
      if (batch.labels[r] < 0) {
        std::fill_n(z, classes_, 0.0F);
      } else {
        loss += row(batch, r, total, z);
      }
    }
    return loss / static_cast<double>(total);
  }

 private:
  static float weight(const Batch& batch, int64_t c) {
    if (c < 0) return 0.0F;  // a position without a label
    return batch.class_weights == nullptr ? 1.0F : batch.class_weights[c];
  }

  // One sample's share of the sum. With l = l_y of the plain loss and W = sum_c w_c,
  //   sum_c w_c l_c = W l + sum_c w_c (z_y - z_c),  and the derivative by z_k is
  //   p_k ((1 - s) w_y + s W/C) - (1 - s) w_y [k = y] - s/C w_k.
  double row(const Batch& batch, int64_t r, float total, float* z) const {
    const int64_t y = batch.labels[r];
    const float own = (1 - share_) * weight(batch, y);
    const float spread = share_ / static_cast<float>(classes_);
    float all = 0;
    double above = 0;
    for (int64_t c = 0; c < classes_; ++c) {
      all += weight(batch, c);
      above += static_cast<double>(weight(batch, c)) * static_cast<double>(z[y] - z[c]);
    }
    const Batch one{.labels = batch.labels + r, .rows = 1};
    const double l = plain_->loss_and_delta(one, z);  // z is p - [k = y] then
    for (int64_t c = 0; c < classes_; ++c) {
      const float hit = c == y ? 1.0F : 0.0F;
      const float delta = (z[c] + hit) * (own + spread * all) - own * hit;
      z[c] = (delta - spread * weight(batch, c)) / total;
    }
    return static_cast<double>(own) * l +
           static_cast<double>(spread) * (static_cast<double>(all) * l + above);
  }

  float share_;
  int64_t classes_, positions_;
  LossPtr plain_;
};

}  // namespace

void check_smoothed(const Loss& loss) {
  if (loss.rule() == LossRule::kCrossEntropy) return;
  throw InvalidArgument(
      fmt::format("labels are smoothed and weighed in the cross-entropy, not in {}", loss.name()),
      "model.loss",
      "cross-entropy takes two classes, too; with several labels leave it at its default");
}

void smooth_labels(Model& model, double share) {
  auto& network = dynamic_cast<NetworkModel&>(model);
  check_smoothed(network.loss());
  network.minimise(std::make_unique<SmoothedLabels>(share, network.outputs(), network.positions()));
}

}  // namespace hanse
