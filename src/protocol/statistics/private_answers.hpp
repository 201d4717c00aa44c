// Noise on the answers of statistics, which makes them private for each sample.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/base/cipher.hpp"
#include "hanse/base/columns.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/options.hpp"

namespace hanse {

// One answer an analysis, each with discrete Gaussian noise of variance ceil(z^2 reach^2), reach
// the most that a sample moves it by: z is privacy.noise, or the least that meets privacy.epsilon
// over all answers. Neighbours add or remove a sample.
class PrivateAnswers {
 public:
  // `squared_reaches` of the analyses. Throws InvalidArgument: the noise is too large, or nothing
  // meets the epsilon.
  PrivateAnswers(const PrivacyOptions& options, const std::vector<int64_t>& squared_reaches,
                 const CipherKey& key);

  // Adds the noise of this analysis's answer, the same at each call.
  void add_noise(std::size_t analysis, std::vector<int64_t>& counts) const;
  // What all answers cost: privacy_epsilon_rdp and the like, for summary.json.
  const Metrics& cost() const { return cost_; }

 private:
  CipherKey key_;
  std::vector<RoundNoise> noises_;  // of the analyses
  Metrics cost_;
};

}  // namespace hanse
