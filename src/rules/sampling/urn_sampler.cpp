#include "urn_sampler.hpp"

#include <utility>

#include "urn_draw.hpp"

namespace hanse {

UrnSampler::UrnSampler(int64_t clients, int64_t per_round, bool replacement, Urn urn)
    : ClientSampler(clients, per_round), urn_(std::move(urn)), replacement_(replacement) {}

Draw UrnSampler::draw(int64_t, RandomStream& stream) {
  return draw_from(urn_, per_round(), replacement_, law(), stream);
}

Draw UrnSampler::impose(std::span<const int64_t> draws) {
  return impose_on(urn_, draws, per_round(), replacement_, law());
}

double UrnSampler::probability(int64_t client) const { return urn_.mass(law(), client); }

void UrnSampler::save(State& state) const {
  State urn;
  urn_.save(urn);
  state.put_part("urn", urn);
}

void UrnSampler::load(const State& state) { urn_.load(state.part("urn")); }

}  // namespace hanse
