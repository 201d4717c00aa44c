// The pull of representations to the means of their classes (FedProto, Tan et al. 2022).
#include <cmath>
#include <span>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/model/distillation.hpp"
#include "loss.hpp"
#include "network_model.hpp"
#include "objective.hpp"

namespace hanse {

namespace {

class ClassMeanPull final : public Objective {
 public:
  ClassMeanPull(const NetworkModel& network, double lambda, MeanDistance distance)
      : lambda_(lambda),
        distance_(distance),
        width_(network.representation_width()),
        positions_(network.positions()),
        plain_(network.loss()) {}

  ObjectiveNeeds needs() const override { return {.representation = true, .class_means = true}; }
  std::span<const float> representation_gradient() const override { return gradient_; }

  double loss_and_delta(const ObjectiveStep& step, RandomStream&, float* logits) override {
    const Batch& batch = step.batch;
    const double loss = plain_.loss_and_delta(batch, logits) / static_cast<double>(batch.rows);
    gradient_.assign(to_index(batch.rows * positions_ * width_), 0.0F);
    if (step.class_means.empty()) return loss;
    return loss +
           lambda_ * (distance_ == MeanDistance::kOfMeans ? pull_means(step) : pull_samples(step));
  }

 private:
  int64_t block() const { return width_ + 1; }
  const float* mean_of(const ObjectiveStep& step, int64_t label) const {
    return step.class_means.data() + label * block();
  }
  bool is_known(const ObjectiveStep& step, int64_t label) const {
    return mean_of(step, label)[width_] > 0;
  }

  // Calls f(label, place) for the labelled places of the batch.
  template <class F>
  void for_labelled(const Batch& batch, F f) const {
    for (int64_t place = 0; place < batch.rows * positions_; ++place) {
      if (batch.labels[place] >= 0) f(int64_t{batch.labels[place]}, place);
    }
  }

  // L_R = sum_j |C^(j) - Cbar^(j)|, C^(j) the mean of the batch's class j  (eq. 3, 8).
  double pull_means(const ObjectiveStep& step) {
    const int64_t classes = std::ssize(step.class_means) / block();
    std::vector<double> means(to_index(classes * width_)), counts(to_index(classes));
    for_labelled(step.batch, [&](int64_t label, int64_t place) {
      ++counts[to_index(label)];
      const float* h = step.representation + place * width_;
      double* sum = means.data() + label * width_;
      for (int64_t i = 0; i < width_; ++i) sum[i] += static_cast<double>(h[i]);
    });
    double all = 0;
    for (int64_t label = 0; label < classes; ++label) {
      const double n = counts[to_index(label)];
      if (n == 0 || !is_known(step, label)) continue;
      all += to_direction(n, mean_of(step, label), means.data() + label * width_);
    }
    for_labelled(step.batch, [&](int64_t label, int64_t place) {
      if (!is_known(step, label)) return;
      const double* direction = means.data() + label * width_;
      for (int64_t i = 0; i < width_; ++i) {
        gradient_[to_index(place * width_ + i)] = static_cast<float>(direction[i]);
      }
    });
    return all;
  }

  // Turns the sum of n representations into lambda d|C - Cbar|/dh of each; returns the distance.
  double to_direction(double n, const float* mean, double* values) const {
    double squared = 0;
    for (int64_t i = 0; i < width_; ++i) {
      values[i] = values[i] / n - static_cast<double>(mean[i]);
      squared += values[i] * values[i];
    }
    const double distance = std::sqrt(squared);
    const double scale = distance > 0 ? lambda_ / (distance * n) : 0;
    for (int64_t i = 0; i < width_; ++i) values[i] *= scale;
    return distance;
  }

  // The mean over places and values of (h - Cbar^(y))^2, 0 where the class has no mean.
  double pull_samples(const ObjectiveStep& step) {
    int64_t places = 0;
    for_labelled(step.batch, [&](int64_t, int64_t) { ++places; });
    const double share = 1 / static_cast<double>(places * width_);
    double squared = 0;
    for_labelled(step.batch, [&](int64_t label, int64_t place) {
      if (!is_known(step, label)) return;
      for (int64_t i = 0; i < width_; ++i) {
        const std::size_t at = to_index(place * width_ + i);
        const double off = static_cast<double>(step.representation[at]) -
                           static_cast<double>(mean_of(step, label)[i]);
        squared += off * off;
        gradient_[at] = static_cast<float>(2 * lambda_ * share * off);
      }
    });
    return squared * share;
  }

  double lambda_;
  MeanDistance distance_;
  int64_t width_, positions_;
  const Loss& plain_;
  std::vector<float> gradient_;  // [rows, positions, width]
};

}  // namespace

void pull_to_class_means(Model& model, double lambda, MeanDistance distance) {
  require_representation(model);
  auto& network = dynamic_cast<NetworkModel&>(model);
  network.minimise(std::make_unique<ClassMeanPull>(network, lambda, distance));
}

}  // namespace hanse
