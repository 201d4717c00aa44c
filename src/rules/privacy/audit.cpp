#include "hanse/rules/privacy/audit.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <boost/math/special_functions/beta.hpp>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Scores = std::span<const double>;

Scores first_half(const std::vector<double>& scores) {
  return std::span(scores).first(scores.size() / 2);
}

Scores second_half(const std::vector<double>& scores) {
  return std::span(scores).subspan(scores.size() / 2);
}

AuditEvent counted(double threshold, bool is_above, Scores with, Scores without) {
  const auto comes = [&](double score) { return (score > threshold) == is_above; };
  return {threshold, is_above, std::ssize(with), std::ranges::count_if(with, comes),
          std::ranges::count_if(without, comes)};
}

// The client's event is that it was there where its scores are above, else that it was not.
double epsilon_of_event(const AuditEvent& event, double delta, double error) {
  const int64_t often = event.is_above ? event.with : event.without;
  const int64_t rare = event.is_above ? event.without : event.with;
  const double least = least_probability(often, event.runs, error) - delta;
  const double most = most_probability(rare, event.runs, error);
  return least > most ? std::log(least / most) : 0;
}

}  // namespace

double least_probability(int64_t count, int64_t runs, double error) {
  if (count == 0) return 0;
  return boost::math::ibeta_inv(static_cast<double>(count), static_cast<double>(runs - count + 1),
                                error);
}

double most_probability(int64_t count, int64_t runs, double error) {
  if (count == runs) return 1;
  return boost::math::ibeta_inv(static_cast<double>(count + 1), static_cast<double>(runs - count),
                                1 - error);
}

AuditBound audited_epsilon(const AuditScores& scores, double delta, double confidence) {
  const double error = (1 - confidence) / 2;
  const Scores with = first_half(scores.with), without = first_half(scores.without);
  std::vector<double> thresholds(with.begin(), with.end());
  thresholds.insert(thresholds.end(), without.begin(), without.end());
  AuditEvent chosen{.threshold = thresholds.front()};
  double best = -1;
  for (const double threshold : thresholds) {
    for (const bool is_above : {true, false}) {
      const double epsilon =
          epsilon_of_event(counted(threshold, is_above, with, without), delta, error);
      if (epsilon <= best) continue;
      best = epsilon;
      chosen = {.threshold = threshold, .is_above = is_above};
    }
  }
  const AuditEvent event = counted(chosen.threshold, chosen.is_above, second_half(scores.with),
                                   second_half(scores.without));
  return {epsilon_of_event(event, delta, error), event};
}

std::vector<TradeOff> trade_off(const AuditScores& scores) {
  const Scores with = second_half(scores.with), without = second_half(scores.without);
  std::vector<double> thresholds(with.begin(), with.end());
  thresholds.insert(thresholds.end(), without.begin(), without.end());
  std::ranges::sort(thresholds);
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  std::vector<TradeOff> curve;
  for (const double threshold : thresholds) {
    const AuditEvent event = counted(threshold, true, with, without);
    const auto share = [&](int64_t count) {
      return static_cast<double>(count) / static_cast<double>(event.runs);
    };
    curve.push_back({threshold, share(event.without), share(event.with)});
  }
  return curve;
}

}  // namespace hanse
