// The formula of SGD, on one number or on tensors.
#pragma once

namespace hanse {

// g <- g + weight_decay w + mu (w - theta);  v <- momentum v + g
struct SgdRule {
  SgdRule(double weight_decay_, double momentum_, double mu_)
      : weight_decay(static_cast<float>(weight_decay_)),
        momentum(static_cast<float>(momentum_)),
        mu(static_cast<float>(mu_)) {}

  float weight_decay;
  float momentum;
  float mu;
};

// The direction that w goes against, of the gradient g (after clipping): v with momentum, else g.
// theta null: no proximal term; v null: no momentum. Value: float, or at::Tensor, whose `g` is
// overwritten. v is overwritten in both.
template <class Value>
Value sgd_direction(const SgdRule& rule, Value g, const Value& w, const Value* theta, Value* v) {
  if (rule.weight_decay != 0) g += rule.weight_decay * w;
  if (theta != nullptr) g += rule.mu * (w - *theta);
  if (v == nullptr) return g;
  *v *= rule.momentum;
  *v += g;
  return *v;
}

}  // namespace hanse
