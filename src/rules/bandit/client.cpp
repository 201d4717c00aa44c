#include "hanse/rules/bandit/client.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

void require(bool holds, const char* option, double value, const char* range) {
  if (holds) return;
  throw InvalidArgument(fmt::format("{} is out of range", value), option, range);
}

}  // namespace

void check_options(const UcbOptions& options) {
  const double most = std::numeric_limits<double>::max();
  require(options.lambda > 0 && options.lambda <= most, "bandit.lambda", options.lambda,
          "it must be above 0");
  require(options.gamma >= 0, "bandit.gamma", options.gamma, "it must be at least 0");
  require(options.sqrt_beta <= most, "bandit.sqrt-beta", options.sqrt_beta, "it must be finite");
  require(options.sigma >= 0 && options.sigma <= most, "bandit.sigma", options.sigma,
          "it must be at least 0");
  require(options.delta > 0 && options.delta < 1, "bandit.delta", options.delta,
          "it must lie in (0, 1)");
  require(options.radius >= 0 && options.radius <= most, "bandit.radius", options.radius,
          "it must be at least 0");
}

double confidence_radius(const UcbOptions& options, double log_growth) {
  if (options.sqrt_beta >= 0) return options.sqrt_beta;
  return options.sigma * std::sqrt(log_growth + 2 * std::log(1 / options.delta)) +
         std::sqrt(options.lambda) * options.radius;
}

void linear_optimism(const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds) {
  for (std::size_t a = 0; a < bounds.size(); ++a) {
    bounds[a] = set.features().base(static_cast<int64_t>(a)) + set.means()[a] +
                sqrt_beta * std::sqrt(set.squared_widths()[a]);
  }
}

int64_t best_arm(std::span<const double> bounds) {
  constexpr double kRounding = 1e-12;
  const double most = *std::max_element(bounds.begin(), bounds.end());
  double size = 0;
  for (const double bound : bounds) size = std::max(size, std::abs(bound));
  const double enough = most - kRounding * size;
  return std::find_if(bounds.begin(), bounds.end(), [&](double b) { return b >= enough; }) -
         bounds.begin();
}

BanditClient::BanditClient(const ArmFeatures& features, const UcbOptions& options,
                           const Optimism& optimism, std::shared_ptr<const ConfidenceSet> common)
    : features_(&features),
      options_(options),
      optimism_(&optimism),
      common_(std::move(common)),
      news_(features) {}

Turn BanditClient::next() const {
  std::vector<double> bounds(to_index(features_->arms()));
  (*optimism_)(set(), confidence_radius(options_, set().log_growth()), bounds);
  const int64_t arm = best_arm(bounds);
  const double width2 = set().squared_widths()[to_index(arm)];
  const auto pulls = static_cast<double>(own_arms_.size() + 1);
  return {.arm = arm, .triggers = pulls * (growth_ + std::log1p(width2)) > options_.gamma};
}

void BanditClient::play(const Turn& turn, double reward) {
  learn(turn.arm, reward - features_->base(turn.arm));
}

void BanditClient::learn(int64_t arm, double residual) {
  growth_ += std::log1p(set().squared_widths()[to_index(arm)]);
  if (!own_) own_ = std::make_unique<ConfidenceSet>(*common_);
  own_->observe(arm, residual);
  news_.add(arm, residual);
  own_arms_.push_back(arm);
  own_residuals_.push_back(residual);
}

void BanditClient::adopt(std::shared_ptr<const ConfidenceSet> common) {
  common_ = std::move(common);
  own_.reset();
  news_.clear();
  own_arms_.clear();
  own_residuals_.clear();
  growth_ = 0;
}

void BanditClient::replay(std::span<const int64_t> arms, std::span<const double> residuals) {
  for (std::size_t i = 0; i < arms.size(); ++i) learn(arms[i], residuals[i]);
}

}  // namespace hanse
