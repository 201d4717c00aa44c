// Which clients take part in a round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/base/state.hpp"

namespace hanse {

// The participants of one round. weights[i] is w_i with E[w_i] = 1 for every client of the
// federation (0 for the undrawn), so that sum_i w_i x_i estimates the sum of x over all clients
// without bias.
struct Draw {
  std::vector<int64_t> clients;  // distinct, in the order drawn
  std::vector<int64_t> counts;   // times each was drawn
  std::vector<double> weights;   // w_i

  std::size_t size() const { return clients.size(); }
};

// What the participants of a round report, in the draw's order.
struct Feedback {
  std::span<const double> squared_norms;  // |theta_i - theta|^2
  std::span<const double> losses;         // mean mini-batch loss
};

class ClientSampler {
 public:
  virtual ~ClientSampler() = default;

  // Draws the participants of a round (counted from 1).
  virtual Draw draw(int64_t round, RandomStream& stream) = 0;

  // Told after every round what its participants reported.
  virtual void observe(const Draw& draw, const Feedback& feedback);

  // The most participants that a round can have.
  virtual int64_t max_participants() const = 0;

  virtual void save(State& state) const;
  virtual void load(const State& state);
};

}  // namespace hanse
