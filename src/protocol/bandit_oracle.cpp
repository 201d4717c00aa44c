#include "bandit_oracle.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

constexpr double kUnit = 0x1p-36;
constexpr double kLargest = 0x1p26;  // of a sum: 2^62 units

// Adds the client's part of grad L and of L, in units; false when one cannot be written in them.
bool add_gradient(const RewardNetwork& network, const Exploration& client, int64_t pulls,
                  std::span<const double> w, std::span<int64_t> sum) {
  const auto inputs = static_cast<std::size_t>(network.inputs());
  std::vector<double> gradient(w.size());
  std::vector<double> total(w.size() + 1);  // the last is of L
  for (std::size_t s = 0; s < client.rewards.size(); ++s) {
    const auto x = std::span(client.points).subspan(s * inputs, inputs);
    const double error = network.gradient(x, w, gradient) - client.rewards[s];
    const double scale = 2 * error / static_cast<double>(pulls);
    for (std::size_t i = 0; i < w.size(); ++i) total[i] += scale * gradient[i];
    total.back() += error * error / static_cast<double>(pulls);
  }
  bool fits = true;
  for (std::size_t i = 0; i < total.size(); ++i) {
    const bool small = std::abs(total[i]) < kLargest / static_cast<double>(pulls);  // NaN is not
    fits = fits && small;
    sum[i] += small ? std::llrint(total[i] / kUnit) : 0;
  }
  return fits;
}

}  // namespace

NetworkFit fit_network(const RewardNetwork& network, std::span<const Exploration> clients,
                       int64_t pulls, const OracleOptions& options, const OracleStream& stream,
                       Communicator& comm) {
  NetworkFit fit;
  fit.w.resize(static_cast<std::size_t>(network.n_params()));
  auto& w = fit.w;
  const auto owner = static_cast<uint64_t>(stream.client);
  RandomStream start(stream.seed, Purpose::kLangevin, 0, owner);
  for (double& value : w) value = options.spread * start.normal();
  const double deviation = std::sqrt(2 * options.step / options.temperature);
  std::vector<int64_t> sum(w.size() + 2);  // grad L, L, clients that do not fit
  for (int64_t k = 1; k <= options.steps; ++k) {
    sum.assign(sum.size(), 0);
    for (const Exploration& client : clients) {
      if (client.rewards.empty()) continue;
      const auto sums = std::span(sum).first(w.size() + 1);
      if (!add_gradient(network, client, pulls, w, sums)) ++sum.back();
    }
    comm.allreduce(std::span(sum), ReduceOp::kSum);
    if (sum.back() > 0) {
      throw InvalidArgument(fmt::format("the reward network diverges in step {} of its fit", k),
                            "bandit.step", "use a smaller step");
    }
    fit.loss = static_cast<double>(sum[w.size()]) * kUnit;
    RandomStream noise(stream.seed, Purpose::kLangevin, static_cast<uint64_t>(k), owner);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double gradient = static_cast<double>(sum[i]) * kUnit;
      w[i] += -options.step * gradient + deviation * noise.normal();
    }
  }
  return fit;
}

}  // namespace hanse
