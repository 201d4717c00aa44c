// FedAsync (Xie et al. 2019): theta <- theta + alpha (theta_i - theta), where theta_i is a client's
// model, and alpha shrinks with its staleness.
#include <numeric>

#include "federated/parts/parts.hpp"

namespace hanse {

namespace {

class FedAsync final : public RoundPart {
 public:
  explicit FedAsync(const PartsOf& of) : mixing_(of.settings.async.mixing) {}

  void weigh(RoundWeights& weights) override {
    const std::span<double> c = weights.coefficients;
    for (double& one : c) one *= mixing_;
    alpha_ = std::accumulate(c.begin(), c.end(), 0.0);
  }
  void trained(const TrainedRound& round) override { received_ = round.received; }

  // theta_i is the received model and the participant's update of it, which is in `update`, times
  // alpha.
  bool steps() const override { return true; }
  void step(int64_t begin, std::span<const float> update, std::span<float> theta) override {
    const auto received = received_.subspan(static_cast<std::size_t>(begin), theta.size());
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const auto present = static_cast<double>(theta[i]);
      const double behind = static_cast<double>(received[i]) - present;
      theta[i] = static_cast<float>(present + (static_cast<double>(update[i]) + alpha_ * behind));
    }
  }

 private:
  double mixing_;
  double alpha_ = 0;
  std::span<const float> received_;  // [P]
};

}  // namespace

std::unique_ptr<RoundPart> make_fedasync(const PartsOf& of) {
  return std::make_unique<FedAsync>(of);
}

}  // namespace hanse
