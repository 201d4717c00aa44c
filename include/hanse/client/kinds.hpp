// The kinds of client.optimizer.
#pragma once

#include <vector>

#include "hanse/client/options.hpp"

namespace hanse {

template <class Options>
struct KindRow;  // base/kind.hpp

// g is the gradient of the loss, clipped, plus weight_decay w (adamw: none, and w <- (1 - lr
// weight_decay) w comes first), plus mu (w - theta) where a proximal term pulls; t counts steps.
//   sgd      v <- momentum v + g;  w <- w - lr v, with Nesterov's w - lr (g + momentum v)
//   adam, adamw (Kingma and Ba 2015; Loshchilov and Hutter 2019)
//            m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
//            w <- w - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
//   adagrad  v <- v + g^2;  w <- w - lr g / (sqrt(v) + eps)           (Duchi et al. 2011)
//   rmsprop  v <- beta2 v + (1 - beta2) g^2;  d = g / (sqrt(v) + eps) (Hinton 2012)
//            b <- momentum b + d;  w <- w - lr b
// All moments are 0 before the first step.
std::vector<KindRow<ClientOptions>> client_optimizer_kinds();

}  // namespace hanse
