#include "hanse/rules/experts/experts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class FedExp final : public ExpertRule {
 public:
  FedExp(int64_t nodes, double eta)
      : nodes_(static_cast<std::size_t>(nodes)), eta_(eta), log_weights_(nodes_ * nodes_) {}

  Exchange exchange() const override { return Exchange::kAll; }

  // p_ij = w_ij / sum over S of w_ij, the largest w_ij of the row taken as 1
  void weigh(std::span<const int64_t> participants, std::span<double> weights) const override {
    std::fill(weights.begin(), weights.end(), 0.0);
    for (std::size_t row = 0; row < weights.size(); row += nodes_) {
      double largest = -std::numeric_limits<double>::infinity();
      for (const int64_t j : participants)
        largest = std::max(largest, log_weights_[row + to_index(j)]);
      double sum = 0;
      for (const int64_t j : participants) {
        sum += weights[row + to_index(j)] = std::exp(log_weights_[row + to_index(j)] - largest);
      }
      for (const int64_t j : participants) weights[row + to_index(j)] /= sum;
    }
  }

  void observe(std::span<const double> losses) override {
    for (std::size_t k = 0; k < losses.size(); ++k) log_weights_[k] -= eta_ * losses[k];
  }

  std::span<double> memory() override { return log_weights_; }

 private:
  std::size_t nodes_;
  double eta_;
  std::vector<double> log_weights_;  // [N, N]
};

class Local final : public ExpertRule {
 public:
  explicit Local(int64_t nodes) : nodes_(static_cast<std::size_t>(nodes)) {}
  Exchange exchange() const override { return Exchange::kNone; }

  void weigh(std::span<const int64_t>, std::span<double> weights) const override {
    std::fill(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < nodes_; ++i) weights[i * nodes_ + i] = 1;
  }

 private:
  std::size_t nodes_;
};

class Mean final : public ExpertRule {
 public:
  explicit Mean(int64_t nodes) : nodes_(static_cast<std::size_t>(nodes)) {}
  Exchange exchange() const override { return Exchange::kMean; }

  void weigh(std::span<const int64_t> participants, std::span<double> weights) const override {
    std::fill(weights.begin(), weights.end(), 0.0);
    const double share = 1 / static_cast<double>(participants.size());
    for (std::size_t row = 0; row < weights.size(); row += nodes_) {
      for (const int64_t j : participants) weights[row + static_cast<std::size_t>(j)] = share;
    }
  }

 private:
  std::size_t nodes_;
};

}  // namespace

void ExpertRule::observe(std::span<const double>) {}

std::unique_ptr<ExpertRule> make_fed_exp(int64_t nodes, double eta) {
  return std::make_unique<FedExp>(nodes, eta);
}

std::unique_ptr<ExpertRule> make_local_experts(int64_t nodes) {
  return std::make_unique<Local>(nodes);
}

std::unique_ptr<ExpertRule> make_mean_experts(int64_t nodes) {
  return std::make_unique<Mean>(nodes);
}

double best_eta(int64_t nodes, int64_t horizon) {
  if (nodes == 1) return 1;
  return std::sqrt(8 * std::log(static_cast<double>(nodes)) / static_cast<double>(horizon));
}

std::vector<int64_t> sample_peers(int64_t nodes, int64_t count, RandomStream& stream) {
  std::vector<int64_t> chosen(static_cast<std::size_t>(nodes));
  std::iota(chosen.begin(), chosen.end(), int64_t{0});
  if (count == nodes) return chosen;
  for (int64_t i = 0; i < count; ++i) {
    std::swap(chosen[static_cast<std::size_t>(i)],
              chosen[static_cast<std::size_t>(i + stream.below(nodes - i))]);
  }
  chosen.resize(static_cast<std::size_t>(count));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

double unit_loss(double loss, double scale) {
  if (!(loss >= 0) || !std::isfinite(loss)) {
    throw InvalidArgument(fmt::format("a loss of {} cannot be weighed", loss), "",
                          "a smaller online.lr may help");
  }
  if (scale > 0) return std::min(loss / scale, 1.0);
  if (loss > 1) {
    throw InvalidArgument(fmt::format("a loss of {:.6g} is outside [0, 1]", loss), "",
                          "set online.loss-scale: losses are divided by it and clipped at 1");
  }
  return loss;
}

bool may_mix(double gap, double c, int64_t horizon) {
  return c == 0 || std::abs(gap) <= c / std::sqrt(static_cast<double>(horizon));
}

}  // namespace hanse
