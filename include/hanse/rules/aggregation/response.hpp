// From losses to bounded responses (AAggFF, eq. 8).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hanse {

// r_i = C1 + (C2 - C1) CDF(F_i / mean F): larger losses answer with more, outliers are bounded.
// Cumulative distribution functions of Appendix B.1, scale and shape 1:
//   weibull 1 - exp(-x^2), frechet exp(-1/x), gumbel exp(-exp(-(x-1))), exponential 1 - exp(-x),
//   logistic 1 / (1 + exp(-(x-1))), normal Phi(x-1).
struct ResponseOptions {
  std::string cdf = "normal";
  double c1 = 0;
  double c2 = 1;
  // The authors' code has (1 + erfc((x-1)/sqrt 2)) / 2 for normal: it FALLS in the loss.
  bool falling_normal = false;
};

// The six names.
const std::vector<std::string>& cdf_names();

// CDF(x) for x >= 0 in [0, 1]. Frechet at 0 is 0. REQUIRES: a name of cdf_names().
double cdf(const ResponseOptions& options, double x);

// Responses of the losses against `mean_loss`; all x_i are 1 when that is 0.
// Throws InvalidArgument when a loss is negative or not finite (names the position).
std::vector<double> respond(const ResponseOptions& options, std::span<const double> losses,
                            double mean_loss);

}  // namespace hanse
