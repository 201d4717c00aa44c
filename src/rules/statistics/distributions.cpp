// Tails of the laws that test statistics follow, by Boost.
#include <cmath>

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "features.hpp"

namespace hanse {

namespace {

using boost::math::complement;

bool is_number(double x) { return !std::isnan(x); }

}  // namespace

double normal_quantile(double level) {
  return quantile(complement(boost::math::normal(), (1 - level) / 2));
}

double normal_p(double z) { return std::erfc(std::abs(z) / std::sqrt(2.0)); }

double student_p(double t, double degrees) {
  if (!is_number(t) || !(degrees > 0)) return std::nan("");
  if (std::isinf(t)) return 0;
  return 2 * cdf(complement(boost::math::students_t(degrees), std::abs(t)));
}

double student_quantile(double level, double degrees) {
  if (!(degrees > 0)) return std::nan("");
  return quantile(complement(boost::math::students_t(degrees), (1 - level) / 2));
}

double chi_squared_p(double x, double degrees) {
  if (!is_number(x) || !(degrees > 0)) return std::nan("");
  if (std::isinf(x)) return 0;
  return cdf(complement(boost::math::chi_squared(degrees), x < 0 ? 0 : x));
}

double fisher_p(double x, double above, double below) {
  if (!is_number(x) || !(above > 0) || !(below > 0)) return std::nan("");
  if (std::isinf(x)) return 0;
  return cdf(complement(boost::math::fisher_f(above, below), x < 0 ? 0 : x));
}

}  // namespace hanse
