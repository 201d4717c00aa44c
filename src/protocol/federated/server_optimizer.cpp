#include "hanse/protocol/server_optimizer.hpp"

#include <cmath>

#include "hanse/base/kind.hpp"
#include "hanse/client/options.hpp"
#include "hanse/rules/newton/symmetric.hpp"

namespace hanse {

namespace {

// An optimizer whose entries do not depend on each other, here or where the sum lies.
template <EntryRule kRule>
class EntryOptimizer final : public ServerOptimizer {
 public:
  EntryOptimizer(const ServerOptions& options, int64_t n_params)
      : step_{.rule = kRule,
              .rates = {.beta = static_cast<float>(options.beta),
                        .beta2 = static_cast<float>(options.beta2),
                        .tau = static_cast<float>(options.tau)}} {
    const auto n = static_cast<std::size_t>(n_params);
    if (step_.states() > 0) first_.resize(n);
    if (step_.states() > 1) second_.assign(n, step_.rates.tau * step_.rates.tau);
  }

  void step(std::span<float> theta, std::span<const float> update, double lr,
            int64_t begin) override {
    EntryRates rates = step_.rates;
    rates.rate = static_cast<float>(lr);
    constexpr int64_t kStates = EntryStep{.rule = kRule}.states();
    float* first = first_.data() + (kStates > 0 ? begin : 0);
    float* second = second_.data() + (kStates > 1 ? begin : 0);
    float none = 0;
    for (std::size_t i = 0; i < theta.size(); ++i) {
      step_entry<kRule>(rates, update[i], theta[i], kStates > 0 ? first[i] : none,
                        kStates > 1 ? second[i] : none);
    }
  }

  std::optional<EntryStep> by_entry() const override { return step_; }
  EntryStates entry_states() override { return {first_, second_}; }

 private:
  void visit(StateFields& fields) override {
    if (step_.states() == 1) fields.fixed("velocity", first_);
    if (step_.states() == 2) fields.fixed("first_moment", first_);
    if (step_.states() == 2) fields.fixed("second_moment", second_);
  }

  EntryStep step_;
  std::vector<float> first_;   // [P] velocity, first moment
  std::vector<float> second_;  // [P] second moment
};

class NewtonOptimizer final : public ServerOptimizer {
 public:
  NewtonOptimizer(const SecondOrderOptions& options, int64_t n_params)
      : options_(options), hessian_(static_cast<std::size_t>(packed_size(n_params))) {}

  void observe(std::span<const float> sum) override { correction_.assign(sum.begin(), sum.end()); }

  void step(std::span<float> theta, std::span<const float> update, double lr, int64_t) override {
    const bool first_is_hessian = !started_ && options_.hessian_start == HessianStart::kHessian;
    started_ = true;
    if (first_is_hessian) correct();
    const std::vector<double> descent(update.begin(), update.end());
    const std::vector<double> direction =
        options_.safeguard == Safeguard::kProjection
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
    {{"sgd", "theta moves by lr times the mixed update"}, make<EntryOptimizer<EntryRule::kSgd>>},
    {{"momentum", "with a velocity that lives across rounds (FedAvgM)", velocity_key()},
     make<EntryOptimizer<EntryRule::kMomentum>>},
    {{"adam", "FedAdam (Reddi et al. 2021)", kMoments}, make<EntryOptimizer<EntryRule::kAdam>>},
    {{"yogi", "FedYogi (Reddi et al. 2021)", kMoments}, make<EntryOptimizer<EntryRule::kYogi>>},
    {{"adagrad",
      "FedAdagrad (Reddi et al. 2021)",
      {velocity_key(" (FedAdagrad's authors: 0)"), kTau}},
     make<EntryOptimizer<EntryRule::kAdagrad>>},
};

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

double server_rate(const ServerOptions& options, int64_t round) {
  const auto decays = static_cast<double>((round - 1) / options.lr_decay_every);
  return options.lr * std::pow(options.lr_decay, decays);
}

std::vector<KindRow<ServerOptions>> server_optimizer_kinds() {
  return {kOptimizers.begin(), kOptimizers.end()};
}

bool takes_plain_steps(const ServerOptions& options) { return options.optimizer == "sgd"; }

std::unique_ptr<ServerOptimizer> make_server_optimizer(const ServerOptions& options,
                                                       int64_t n_params) {
  return find_kind(kOptimizers, "server.optimizer", options.optimizer).make(options, n_params);
}

std::unique_ptr<ServerOptimizer> make_newton_optimizer(const SecondOrderOptions& options,
                                                       int64_t n_params) {
  return std::make_unique<NewtonOptimizer>(options, n_params);
}

std::unique_ptr<ServerOptimizer> make_dyn_optimizer(int64_t n_params) {
  return std::make_unique<DynOptimizer>(n_params);
}

}  // namespace hanse
