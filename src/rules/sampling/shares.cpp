// Draws by given shares: weighted, lipschitz and optimal.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

class ShareSampler : public UrnSampler {
 public:
  ShareSampler(int64_t clients, int64_t per_round, bool replacement)
      : UrnSampler(clients, per_round, replacement, Urn(clients, 1, true)) {}

  // Shares of all clients; they need not sum to 1.
  template <class Share>
  void set_shares(Share share) {
    for (int64_t client = 0; client < clients(); ++client) urn_.row(client)[0] = share(client);
    urn_.refresh_all();
  }

  // The shares are no state of a run.
  void save(State&) const override {}
  void load(const State&) override { urn_.call_back(); }

 protected:
  UrnLaw law() const override { return {.coefficients = {1 / urn_.sum(0)}}; }
};

class OptimalSampler final : public ShareSampler {
 public:
  using ShareSampler::ShareSampler;

  bool needs_foresight() const override { return true; }
  void foresee(std::span<const double> a) override {
    const bool nothing = std::all_of(a.begin(), a.end(), [](double x) { return x == 0; });
    set_shares([&](int64_t client) {
      return nothing ? 1 : std::sqrt(a[static_cast<std::size_t>(client)]);
    });
  }
};

}  // namespace

std::unique_ptr<ClientSampler> make_weighted_sampler(std::span<const double> shares,
                                                     int64_t per_round, bool replacement) {
  const auto clients = static_cast<int64_t>(shares.size());
  check_per_round(per_round, clients, replacement);
  if (!(std::accumulate(shares.begin(), shares.end(), 0.0) > 0)) {
    throw InvalidArgument("no client has a positive share", "sampler.kind");
  }
  auto sampler = std::make_unique<ShareSampler>(clients, per_round, replacement);
  sampler->set_shares([&](int64_t client) { return shares[static_cast<std::size_t>(client)]; });
  return sampler;
}

std::unique_ptr<ClientSampler> make_optimal_sampler(int64_t clients, int64_t per_round,
                                                    bool replacement) {
  check_per_round(per_round, clients, replacement);
  auto sampler = std::make_unique<OptimalSampler>(clients, per_round, replacement);
  sampler->set_shares([](int64_t) { return 1.0; });
  return sampler;
}

}  // namespace hanse
