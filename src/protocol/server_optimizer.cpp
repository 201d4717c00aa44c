#include "hanse/protocol/server_optimizer.hpp"

#include <vector>

namespace hanse {

void ServerOptimizer::save(State&) const {}
void ServerOptimizer::load(const State&) {}

namespace {

class ServerSgd final : public ServerOptimizer {
 public:
  explicit ServerSgd(double lr) : lr_(static_cast<float>(lr)) {}
  void step(std::span<float> theta, std::span<const float> update) override {
    for (std::size_t i = 0; i < theta.size(); ++i) theta[i] += lr_ * update[i];
  }

 private:
  float lr_;
};

class ServerMomentum final : public ServerOptimizer {
 public:
  ServerMomentum(double lr, double beta, int64_t n_params)
      : lr_(static_cast<float>(lr)),
        beta_(static_cast<float>(beta)),
        velocity_(static_cast<std::size_t>(n_params)) {}

  void step(std::span<float> theta, std::span<const float> update) override {
    for (std::size_t i = 0; i < theta.size(); ++i) {
      velocity_[i] = beta_ * velocity_[i] + update[i];
      theta[i] += lr_ * velocity_[i];
    }
  }
  void save(State& state) const override { state.put("velocity", std::span(velocity_)); }
  void load(const State& state) override { state.get_into<float>("velocity", velocity_); }

 private:
  float lr_;
  float beta_;
  std::vector<float> velocity_;  // [P]
};

}  // namespace

std::unique_ptr<ServerOptimizer> make_server_optimizer(const ServerOptions& options,
                                                       int64_t n_params) {
  if (options.optimizer == "momentum") {
    return std::make_unique<ServerMomentum>(options.lr, options.beta, n_params);
  }
  return std::make_unique<ServerSgd>(options.lr);
}

}  // namespace hanse
