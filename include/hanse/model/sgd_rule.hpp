// The formula of SGD, on one number or on tensors.
#pragma once

namespace hanse {

// g <- g + weight_decay w + mu (w - theta);  v <- momentum v + g;  the direction is v, or
// g + momentum v (Nesterov's), or g without momentum
struct SgdRule {
  float weight_decay = 0;
  float momentum = 0;
  float mu = 0;
  bool nesterov = false;
};

// The gradient g (after clipping) with decay and pull; theta null: no proximal term. Value: float,
// or at::Tensor, whose `g` is overwritten.
template <class Value>
Value pulled_gradient(const SgdRule& rule, Value g, const Value& w, const Value* theta) {
  if (rule.weight_decay != 0) g += rule.weight_decay * w;
  if (theta != nullptr) g += rule.mu * (w - *theta);
  return g;
}

// The direction that w goes against, of such a gradient; v is overwritten.
template <class Value>
Value with_momentum(const SgdRule& rule, Value g, Value& v) {
  v *= rule.momentum;
  v += g;
  if (rule.nesterov) return g + rule.momentum * v;
  return v;
}

}  // namespace hanse
