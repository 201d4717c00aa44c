#include "statistics/private_answers.hpp"

#include <cmath>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/noise.hpp"

namespace hanse {

namespace {

// The noise on an answer that a sample moves by at most sqrt(squared_reach).
RoundNoise noise_of(int64_t squared_reach, double multiplier) {
  const double reach = std::sqrt(static_cast<double>(squared_reach));
  const double variance = std::ceil(static_cast<double>(squared_reach) * multiplier * multiplier);
  if (variance > static_cast<double>(kMostGaussianVariance)) {
    throw InvalidArgument("the noise is too large for its integers", "privacy.noise",
                          "ask for fewer columns, or a larger epsilon");
  }
  return {.bound = static_cast<int64_t>(std::ceil(reach)),
          .variance = static_cast<int64_t>(std::max(variance, 1.0))};
}

PrivacyAccountant account_of(const std::vector<RoundNoise>& noises) {
  PrivacyAccountant account({.adjacency = Adjacency::kAddRemove});
  for (const RoundNoise& noise : noises) account.spend(noise);
  return account;
}

}  // namespace

PrivateAnswers::PrivateAnswers(const PrivacyOptions& options,
                               const std::vector<int64_t>& squared_reaches, const CipherKey& key)
    : key_(key) {
  const auto noises_with = [&](double multiplier) {
    std::vector<RoundNoise> noises;
    for (const int64_t reach : squared_reaches) noises.push_back(noise_of(reach, multiplier));
    return noises;
  };
  const auto epsilon_of = [&](double multiplier) {
    return account_of(noises_with(multiplier)).epsilon(options.accountant, options.delta);
  };
  noises_ = noises_with(options.noise ? *options.noise : least_noise(options.epsilon, epsilon_of));
  const PrivacyAccountant account = account_of(noises_);
  cost_ = {{"privacy_epsilon_rdp", account.rdp(options.delta).epsilon},
           {"privacy_epsilon_zcdp", account.zcdp(options.delta).value_or(std::nan(""))},
           {"privacy_epsilon_pld", account.pld(options.delta).value_or(std::nan(""))}};
}

void PrivateAnswers::add_noise(std::size_t analysis, std::vector<int64_t>& counts) const {
  CipherStream words(key_.derived(analysis));
  Noise(Mechanism::kDiscreteGaussian, noises_[analysis].variance).add(words, counts);
}

}  // namespace hanse
