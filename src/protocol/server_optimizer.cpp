#include "hanse/protocol/server_optimizer.hpp"

#include <cmath>
#include <vector>

#include "hanse/base/decay.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/rules/newton/symmetric.hpp"

namespace hanse {

double server_rate(const ServerOptions& options, int64_t round) {
  return stepwise_decay(options.lr, options.lr_decay, options.lr_decay_every, round);
}

namespace {

class ServerSgd final : public ServerOptimizer {
 public:
  ServerSgd(const ServerOptions&, int64_t) {}

  void step(std::span<float> theta, std::span<const float> update, double lr, int64_t) override {
    const auto rate = static_cast<float>(lr);
    for (std::size_t i = 0; i < theta.size(); ++i) theta[i] += rate * update[i];
  }
};

class ServerMomentum final : public ServerOptimizer {
 public:
  ServerMomentum(const ServerOptions& options, int64_t n_params)
      : beta_(static_cast<float>(options.beta)), velocity_(static_cast<std::size_t>(n_params)) {}

  void step(std::span<float> theta, std::span<const float> update, double lr,
            int64_t begin) override {
    const auto rate = static_cast<float>(lr);
    float* velocity = velocity_.data() + begin;
    for (std::size_t i = 0; i < theta.size(); ++i) {
      velocity[i] = beta_ * velocity[i] + update[i];
      theta[i] += rate * velocity[i];
    }
  }

 private:
  void visit(StateFields& fields) override { fields.fixed("velocity", velocity_); }

  float beta_;
  std::vector<float> velocity_;  // [P]
};

// The second moment of one entry after an update u.
using SecondMoment = float (*)(float v, float u, float beta2);

float adagrad_moment(float v, float u, float) { return v + u * u; }
float adam_moment(float v, float u, float beta2) { return beta2 * v + (1 - beta2) * u * u; }
float yogi_moment(float v, float u, float beta2) {
  const float difference = v - u * u;
  const float sign = static_cast<float>((difference > 0) - (difference < 0));
  return v - (1 - beta2) * u * u * sign;
}

template <SecondMoment kMoment>
class ServerAdaptive final : public ServerOptimizer {
 public:
  ServerAdaptive(const ServerOptions& options, int64_t n_params)
      : beta_(static_cast<float>(options.beta)),
        beta2_(static_cast<float>(options.beta2)),
        tau_(static_cast<float>(options.tau)),
        first_(static_cast<std::size_t>(n_params)),
        second_(static_cast<std::size_t>(n_params), tau_ * tau_) {}

  void step(std::span<float> theta, std::span<const float> update, double lr,
            int64_t begin) override {
    const auto rate = static_cast<float>(lr);
    float* first = first_.data() + begin;
    float* second = second_.data() + begin;
    for (std::size_t i = 0; i < theta.size(); ++i) {
      first[i] = beta_ * first[i] + (1 - beta_) * update[i];
      second[i] = kMoment(second[i], update[i], beta2_);
      theta[i] += rate * first[i] / (std::sqrt(second[i]) + tau_);
    }
  }

 private:
  void visit(StateFields& fields) override {
    fields.fixed("first_moment", first_);
    fields.fixed("second_moment", second_);
  }

  float beta_;
  float beta2_;
  float tau_;
  std::vector<float> first_;   // [P]
  std::vector<float> second_;  // [P]
};

class NewtonOptimizer final : public ServerOptimizer {
 public:
  NewtonOptimizer(const SecondOrderOptions& options, int64_t n_params)
      : options_(options), hessian_(static_cast<std::size_t>(packed_size(n_params))) {}

  void observe(std::span<const float> sum) override { correction_.assign(sum.begin(), sum.end()); }

  void step(std::span<float> theta, std::span<const float> update, double lr, int64_t) override {
    const bool first_is_hessian = !started_ && options_.hessian_start == "hessian";
    started_ = true;
    if (first_is_hessian) correct();
    const std::vector<double> descent(update.begin(), update.end());
    const std::vector<double> direction =
        options_.safeguard == "projection"
            ? projected_newton_direction(hessian_, options_.least_eigenvalue, descent)
            : shifted_newton_direction(hessian_, correction_.back(), descent);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      theta[i] = static_cast<float>(static_cast<double>(theta[i]) + lr * direction[i]);
    }
    if (!first_is_hessian) correct();
  }

 private:
  void visit(StateFields& fields) override {
    fields.fixed("hessian", hessian_);
    fields.one("started", started_);
  }

  void correct() {
    for (std::size_t i = 0; i < hessian_.size(); ++i) hessian_[i] += correction_[i];
  }

  SecondOrderOptions options_;
  std::vector<double> hessian_;  // [P (P + 1)/2] H
  bool started_ = false;
  std::vector<double> correction_;  // [P (P + 1)/2 + 1] S and l of the round
};

using OptimizerPtr = std::unique_ptr<ServerOptimizer>;

template <class Optimizer>
OptimizerPtr make(const ServerOptions& options, int64_t n_params) {
  return std::make_unique<Optimizer>(options, n_params);
}

struct OptimizerKind : KindRow<ServerOptions> {
  OptimizerPtr (*make)(const ServerOptions& options, int64_t n_params);
};

using Options = ServerOptions;
const auto key = keys_of<Options>("server");

Keys<Options> velocity_key(const std::string& more = "") {
  return key("beta", &Options::beta, from_below(0, 1), "share of the velocity that stays" + more);
}

const Keys<Options> kTau =
    key("tau", &Options::tau, above(0), "adaptivity, added to the root of the moment");
const Keys<Options> kMoments{
    velocity_key(),
    key("beta2", &Options::beta2, from_below(0, 1), "share of the second moment that stays"), kTau};

const std::vector<OptimizerKind> kOptimizers{
    {{"sgd", "theta moves by lr times the mixed update"}, make<ServerSgd>},
    {{"momentum", "with a velocity that lives across rounds (FedAvgM)", velocity_key()},
     make<ServerMomentum>},
    {{"adam", "FedAdam (Reddi et al. 2021)", kMoments}, make<ServerAdaptive<adam_moment>>},
    {{"yogi", "FedYogi (Reddi et al. 2021)", kMoments}, make<ServerAdaptive<yogi_moment>>},
    {{"adagrad",
      "FedAdagrad (Reddi et al. 2021)",
      {velocity_key(" (FedAdagrad's authors: 0)"), kTau}},
     make<ServerAdaptive<adagrad_moment>>},
};

}  // namespace

std::vector<KindRow<ServerOptions>> server_optimizer_kinds() {
  return {kOptimizers.begin(), kOptimizers.end()};
}

std::unique_ptr<ServerOptimizer> make_server_optimizer(const ServerOptions& options,
                                                       int64_t n_params) {
  return find_kind(kOptimizers, "server.optimizer", options.optimizer).make(options, n_params);
}

std::unique_ptr<ServerOptimizer> make_newton_optimizer(const ClientOptions& client,
                                                       int64_t n_params) {
  return std::make_unique<NewtonOptimizer>(client.second_order, n_params);
}

}  // namespace hanse
