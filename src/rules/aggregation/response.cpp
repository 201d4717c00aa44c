#include "hanse/rules/aggregation/response.hpp"

#include <cmath>
#include <numbers>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

const std::vector<std::string>& cdf_names() {
  static const std::vector<std::string> names{"normal",      "weibull",  "frechet",
                                              "exponential", "logistic", "gumbel"};
  return names;
}

double cdf(const ResponseOptions& options, double x) {
  const std::string& name = options.cdf;
  if (name == "weibull") return -std::expm1(-x * x);           // 1 - e^{-x^2}
  if (name == "frechet") return x > 0 ? std::exp(-1 / x) : 0;  // e^{-1/x}
  if (name == "gumbel") return std::exp(-std::exp(1 - x));     // e^{-e^{-(x-1)}}
  if (name == "exponential") return -std::expm1(-x);           // 1 - e^{-x}
  if (name == "logistic") return 1 / (1 + std::exp(1 - x));    // 1 / (1 + e^{-(x-1)})
  const double z = (x - 1) / std::numbers::sqrt2;
  if (options.falling_normal) return (1 + std::erfc(z)) / 2;
  return std::erfc(-z) / 2;  // Phi(x - 1)
}

std::vector<double> respond(const ResponseOptions& options, std::span<const double> losses,
                            double mean_loss) {
  require_losses(losses, 0);
  std::vector<double> responses;
  responses.reserve(losses.size());
  for (const double loss : losses) {
    const double x = mean_loss > 0 ? loss / mean_loss : 1;
    responses.push_back(options.c1 + (options.c2 - options.c1) * cdf(options, x));
  }
  return responses;
}

}  // namespace hanse
