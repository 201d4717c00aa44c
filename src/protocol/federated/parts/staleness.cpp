// Updates of older models count less.
#include "hanse/rules/clock/staleness.hpp"

#include <algorithm>

#include "federated/parts/parts.hpp"
#include "hanse/protocol/turnout.hpp"

namespace hanse {

namespace {

// The coefficients are those of each layer; where nothing is stale they stay as they are, to the
// last bit.
class Staleness final : public RoundPart {
 public:
  explicit Staleness(const PartsOf& of) : options_(of.settings.async) {}

  void weigh(RoundWeights& weights) override {
    const std::span<const int64_t> tau = weights.turnout.times.staleness;
    if (std::ranges::none_of(tau, [](int64_t one) { return one > 0; })) return;
    const std::span<double> c = weights.coefficients;
    for (std::size_t i = 0; i < c.size(); i += tau.size()) {
      const auto layer = c.subspan(i, tau.size());
      std::ranges::copy(buffer_coefficients(options_, layer, tau), layer.begin());
    }
    weights.any = std::ranges::any_of(c, [](double one) { return one != 0; });
  }

 private:
  const AsyncOptions& options_;
};

}  // namespace

std::unique_ptr<RoundPart> make_staleness(const PartsOf& of) {
  return std::make_unique<Staleness>(of);
}

}  // namespace hanse
