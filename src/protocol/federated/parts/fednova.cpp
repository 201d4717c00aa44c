// FedNova (Wang et al. 2020): clients that make more steps do not count more for it.
#include <numeric>
#include <vector>

#include "federated/parts/parts.hpp"

namespace hanse {

namespace {

// c_i <- c_i / tau_i sum_j c_j tau_j.
class FedNova final : public RoundPart {
 public:
  explicit FedNova(const PartsOf& of) : parts_(of.parts) {}

  void weigh(RoundWeights& weights) override {
    const std::span<double> c = weights.coefficients;
    const auto& tasks = weights.turnout.tasks;
    std::vector<double> taus;
    for (const int64_t client : weights.clients) {
      const int64_t samples = parts_.federation.train(client).size();
      const int64_t made = tasks.empty() ? 0 : tasks[taus.size()].steps;
      taus.push_back(parts_.update.steps().effective_steps(weights.round, samples, made));
    }
    const double mean = std::inner_product(taus.begin(), taus.end(), c.begin(), 0.0);
    for (std::size_t i = 0; i < taus.size(); ++i) c[i] *= mean / taus[i];
  }

 private:
  const FederatedTrainer::Parts& parts_;
};

}  // namespace

std::unique_ptr<RoundPart> make_fednova(const PartsOf& of) { return std::make_unique<FedNova>(of); }

}  // namespace hanse
