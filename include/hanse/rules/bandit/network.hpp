// The reward function that Fed-GO-UCB fits: a network with one hidden layer, in float64.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/rules/bandit/linear.hpp"

namespace hanse {

// f_x(w) = W2 . s(W1 x + c1) + c2 with s(z) = 1 / (1 + exp(-z)) (Li, Liu and Wang 2023, section
// 6). w = W1 [H, inputs] by rows, c1 [H], W2 [H], c2: H (inputs + 2) + 1 numbers.
class RewardNetwork {
 public:
  // REQUIRES: both >= 1.
  RewardNetwork(int64_t inputs, int64_t hidden) : inputs_(inputs), hidden_(hidden) {}

  int64_t inputs() const { return inputs_; }
  int64_t n_params() const { return hidden_ * (inputs_ + 2) + 1; }  // d_w

  // f_x(w); `x` [inputs], `w` [n_params].
  double value(std::span<const double> x, std::span<const double> w) const;
  // Returns f_x(w), and writes grad_w f_x(w) to `gradient` [n_params], in closed form. Cost 4 H
  // inputs flops and H exponentials.
  double gradient(std::span<const double> x, std::span<const double> w,
                  std::span<double> gradient) const;

 private:
  int64_t inputs_;
  int64_t hidden_;
};

// The arms that both forms of optimism below need beside a confidence set.
struct NetworkArms {
  RewardNetwork network;
  std::vector<double> points;  // [arms, inputs]
  std::vector<double> w0;      // [n_params]
};

// f_x(w0 + shift) + sqrt_beta |phi_x|_{Sigma^{-1}}: the network at the centre of the set. Known
// weakness: erratic far from w0, where the set says nothing about the network. Cost A f's a turn.
Optimism network_mean_optimism(std::shared_ptr<const NetworkArms> arms);

// The largest f_x(w) found over the set, by `steps` of w <- centre + sqrt_beta Sigma^{-1} g /
// |g|_{Sigma^{-1}}, g = grad_w f_x(w), from the centre: each step maximises f linearised at w. No
// bound: f is not concave. Cost `steps` A (f's gradient + p^2 + p d) flops a turn.
Optimism ellipsoid_optimism(std::shared_ptr<const NetworkArms> arms, int64_t steps);

}  // namespace hanse
