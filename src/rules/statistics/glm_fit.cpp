#include "glm_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "glm_family.hpp"
#include "information.hpp"

namespace hanse {

namespace {

constexpr double kSeparated = 30;  // |linear part| of a binomial fit; 1 - mu is 1e-13 there
constexpr int64_t kBinomialSteps = 25;
constexpr int64_t kMostHalvings = 30;

}  // namespace

GlmFit::GlmFit(GlmFamily family, std::vector<double> start, int64_t iterations, double tolerance)
    : family_(family),
      most_(family == GlmFamily::kBinomial ? std::min(iterations, kBinomialSteps) : iterations),
      tolerance_(tolerance),
      parameters_(std::move(start)),
      deviance_(std::numeric_limits<double>::infinity()) {}

void GlmFit::halve() {
  if (++halvings_ > kMostHalvings) {
    parameters_ = before_;
    end_ = FitEnd::kConverged;  // no step lowers the deviance by more than its rounding
    return;
  }
  for (std::size_t j = 0; j < parameters_.size(); ++j) {
    parameters_[j] = (parameters_[j] + before_[j]) / 2;
  }
}

bool GlmFit::accepts(double largest_linear) {
  if (family_ == GlmFamily::kBinomial && largest_linear > kSeparated) {
    end_ = FitEnd::kSeparated;
    return false;
  }
  if (family_ != GlmFamily::kPoisson || largest_linear <= kMostLinear || before_.empty())
    return true;
  halve();
  return false;
}

void GlmFit::take(GlmLook look) {
  const bool rises = look.deviance > deviance_ + 1e-14 * std::abs(deviance_);
  if (rises && !before_.empty() && !is_last_) return halve();
  const double change = std::abs(look.deviance - deviance_);
  deviance_ = look.deviance;
  information_ = std::move(look.information);
  halvings_ = 0;
  // The deviance is flat at its least: one more step halves the exponent of the parameters' error.
  const bool converged = is_last_;
  is_last_ = change <= tolerance_ * (std::abs(deviance_) + 0.1);
  const Information information(information_, parameters_.size());
  dependent_ = information.dependent();
  if (dependent_ >= 0) {
    end_ = FitEnd::kDependent;
  } else if (converged || parameters_.empty()) {
    end_ = FitEnd::kConverged;
  } else if (iterations_ == most_ && !is_last_) {
    end_ = family_ == GlmFamily::kBinomial ? FitEnd::kSeparated : FitEnd::kNoEnd;
  } else {
    ++iterations_;
    before_ = parameters_;
    const std::vector<double> step = information.solve(look.score);
    for (std::size_t j = 0; j < parameters_.size(); ++j) parameters_[j] += step[j];
  }
}

}  // namespace hanse
