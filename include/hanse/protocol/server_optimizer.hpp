// How the server steps along the mixed update.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hanse/base/state.hpp"

namespace hanse {

struct ServerOptions {
  std::string optimizer = "sgd";  // sgd | momentum
  double lr = 1;                  // step size; 1 with sgd is plain averaging
  double beta = 0.9;              // momentum: share of the velocity that stays
  std::string role = "auto";      // auto | dedicated | shared: does rank 0 host clients too?
};

class ServerOptimizer {
 public:
  virtual ~ServerOptimizer() = default;
  // theta [P] moves by the mixed update [P]; state lives across rounds. Cost O(P).
  virtual void step(std::span<float> theta, std::span<const float> update) = 0;
  virtual void save(State& state) const;
  virtual void load(const State& state);
};

// sgd:      theta <- theta + lr u
// momentum: v <- beta v + u;  theta <- theta + lr v   (FedAvgM, Hsu et al. 2019, eq. in
// section 4.3)
std::unique_ptr<ServerOptimizer> make_server_optimizer(const ServerOptions& options,
                                                       int64_t n_params);

}  // namespace hanse
