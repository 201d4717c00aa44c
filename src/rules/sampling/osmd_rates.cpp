// The learning rates of the OSMD family.
#include <cmath>

#include "hanse/rules/sampling/osmd.hpp"

namespace hanse {

OsmdOptions::Variant parse_osmd_variant(const std::string& name) {
  if (name == "reference") return OsmdOptions::Variant::kReference;
  return name == "corrected" ? OsmdOptions::Variant::kCorrected : OsmdOptions::Variant::kPaper;
}

int64_t osmd_experts(double alpha, int64_t clients, int64_t rounds) {
  if (clients == 1) return 1;
  const double log_m = std::log(static_cast<double>(clients));
  const double spread = 4 * (log_m - std::log(alpha)) / log_m * static_cast<double>(rounds - 1);
  return static_cast<int64_t>(std::ceil(std::log2(1 + spread) / 2)) + 1;  // eq. 23
}

OsmdRates osmd_rates(const OsmdOptions& options, int64_t clients, int64_t per_round, int64_t rounds,
                     double a_max) {
  const auto m = static_cast<double>(clients);
  const auto k = static_cast<double>(per_round);
  const auto t = static_cast<double>(rounds);
  const double floor = options.alpha / m;
  const bool reference = options.variant == OsmdOptions::Variant::kReference;
  const bool corrected = options.variant == OsmdOptions::Variant::kCorrected;
  OsmdRates rates;
  const double smallest =
      (reference ? k / 2 : 1) * k * floor * floor * floor / a_max * std::sqrt(2 * std::log(m) / t);
  if (options.kind == OsmdKind::kFixed) {
    rates.eta = {options.eta >= 0 ? options.eta : smallest};
    return rates;
  }
  const int64_t experts = osmd_experts(options.alpha, clients, rounds);
  for (int64_t e = 0; e < experts; ++e)
    rates.eta.push_back(std::ldexp(smallest, static_cast<int>(e)));
  rates.gamma = corrected ? k * floor * floor / a_max * std::sqrt(8 / t)
                          : floor * std::sqrt(8 * k / (t * a_max));
  if (options.gamma >= 0) rates.gamma = options.gamma;
  return rates;
}

}  // namespace hanse
