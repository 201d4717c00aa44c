// What the samplers that draw from an urn share.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/rules/sampling/sampler.hpp"
#include "urn.hpp"

namespace hanse {

// A sampler that draws from an urn.
class UrnSampler : public ClientSampler {
 public:
  Draw draw(int64_t round, RandomStream& stream) override;
  Draw impose(std::span<const int64_t> draws) override;
  double probability(int64_t client) const override;
  void toggle(std::span<const int64_t> clients) override { urn_.toggle(clients); }
  const ClientSet& available() const override { return urn_.available(); }

  // The urn; samplers that keep more call them first.
  void save(State& state) const override;
  void load(const State& state) override;

 protected:
  UrnSampler(int64_t clients, int64_t per_round, bool replacement, Urn urn);
  // The masses of the next draw; over all clients they sum to 1.
  virtual UrnLaw law() const = 0;

  Urn urn_;

 private:
  bool replacement_;
};

}  // namespace hanse
