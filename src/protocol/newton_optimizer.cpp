#include "hanse/protocol/newton_optimizer.hpp"

#include <vector>

#include "hanse/rules/newton/symmetric.hpp"

namespace hanse {

namespace {

class NewtonOptimizer final : public ServerOptimizer {
 public:
  NewtonOptimizer(const NewtonOptions& options, int64_t n_params)
      : options_(options), hessian_(static_cast<std::size_t>(packed_size(n_params))) {}

  void observe(std::span<const float> sum) override { told_.assign(sum.begin(), sum.end()); }

  void step(std::span<float> theta, std::span<const float> update, double lr, int64_t) override {
    const bool first_is_hessian = started_ == 0 && options_.starts_from_hessian;
    started_ = 1;
    if (first_is_hessian) correct();
    const std::vector<double> descent(update.begin(), update.end());
    const std::vector<double> direction =
        options_.least_eigenvalue > 0
            ? projected_newton_direction(hessian_, options_.least_eigenvalue, descent)
            : shifted_newton_direction(hessian_, told_.back(), descent);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      theta[i] = static_cast<float>(static_cast<double>(theta[i]) + lr * direction[i]);
    }
    if (!first_is_hessian) correct();
  }

  void save(State& state) const override {
    state.put("hessian", std::span(hessian_));
    state.put("started", started_);
  }
  void load(const State& state) override {
    state.get_into<double>("hessian", hessian_);
    started_ = state.get_one<int64_t>("started");
  }

 private:
  void correct() {
    for (std::size_t i = 0; i < hessian_.size(); ++i) hessian_[i] += told_[i];
  }

  NewtonOptions options_;
  std::vector<double> hessian_;  // [P (P + 1)/2] H
  int64_t started_ = 0;
  std::vector<double> told_;  // [P (P + 1)/2 + 1] S and l of the round
};

}  // namespace

std::unique_ptr<ServerOptimizer> make_newton_optimizer(const NewtonOptions& options,
                                                       int64_t n_params) {
  return std::make_unique<NewtonOptimizer>(options, n_params);
}

}  // namespace hanse
