#include "hanse/protocol/dyn_optimizer.hpp"

#include <vector>

namespace hanse {

namespace {

class DynOptimizer final : public ServerOptimizer {
 public:
  explicit DynOptimizer(int64_t n_params) : h_(static_cast<std::size_t>(n_params)) {}

  void observe(std::span<const float> sum) override { share_ = sum.front(); }

  void step(std::span<float> theta, std::span<const float> update, double lr,
            int64_t begin) override {
    const auto h = std::span(h_).subspan(static_cast<std::size_t>(begin));
    for (std::size_t i = 0; i < theta.size(); ++i) {
      h[i] -= share_ * update[i];
      theta[i] += static_cast<float>(lr) * update[i] - h[i];
    }
  }

 private:
  void visit(StateFields& fields) override { fields.fixed("h", h_); }

  std::vector<float> h_;  // [P]
  float share_ = 0;       // of the clients, in this round
};

}  // namespace

std::unique_ptr<ServerOptimizer> make_dyn_optimizer(int64_t n_params) {
  return std::make_unique<DynOptimizer>(n_params);
}

}  // namespace hanse
