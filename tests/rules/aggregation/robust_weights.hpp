// The coefficients of the robust rules for products of rows, without a round.
#pragma once

#include "aggregation/places.hpp"
#include "aggregation/robust/rules.hpp"
#include "rules/aggregation/rows.hpp"

namespace hanse {

// A round of `gram`'s rows, of which `extra` at the end are no participants.
template <class Take>
auto with_round(const GramView& gram, int64_t f, const RobustOptions& options, std::size_t extra,
                const Take& take) {
  const std::vector<int64_t> clients = all_clients(static_cast<int64_t>(gram.n - extra));
  const RoundReport report{.clients = clients, .lambda = {}, .draw_weights = {}, .losses = {}};
  const RobustRound round{.report = report,
                          .options = options,
                          .kept = all_places(gram.n),
                          .extra = extra,
                          .f = f,
                          .entries = {},
                          .rows = MappedRows(gram, extra),
                          .permutation = {}};
  return take(round);
}

inline Coefficients weigh(const RobustRule& rule, const GramView& gram, int64_t f,
                          const RobustOptions& options = {}, std::size_t extra = 0) {
  return with_round(gram, f, options, extra,
                    [&](const RobustRound& round) { return rule.weigh(round, gram); });
}

inline RobustOptions of_variant(Variant variant) {
  RobustOptions options;
  options.variant = variant;
  return options;
}

inline Coefficients multi_krum(const GramView& gram, int64_t f, int64_t keep, Variant variant) {
  RobustOptions options = of_variant(variant);
  options.keep = keep;
  return weigh(robust::multi_krum(), gram, f, options);
}

inline std::vector<std::size_t> bulyan_selection(const GramView& gram, int64_t f) {
  return with_round(gram, f, {}, 0,
                    [&](const RobustRound& round) { return robust::bulyan().choose(round, gram); });
}

inline Coefficients smallest_diameter(const GramView& gram, int64_t f) {
  return weigh(robust::mda(), gram, f);
}

inline Coefficients nearest_to(const GramView& gram, int64_t f, int64_t pivot) {
  RobustOptions options;
  options.pivot = pivot;
  return weigh(robust::monna(), gram, f, options);
}

inline Coefficients geometric_median(const GramView& gram, int64_t iterations, double smoothing) {
  RobustOptions options;
  options.iterations = iterations;
  options.smoothing = smoothing;
  return weigh(robust::geometric_median(), gram, 0, options);
}

inline Coefficients centered_clipping(const GramView& gram, std::size_t rows, double radius,
                                      int64_t iterations) {
  RobustOptions options;
  options.radius = radius;
  options.iterations = iterations;
  return weigh(robust::centered_clipping(), gram, 0, options, gram.n - rows);
}

inline Coefficients trusted_mean(const GramView& gram) {
  return weigh(robust::fltrust(), gram, 0, {}, 1);
}

inline Coefficients least_covariance(const GramView& gram, int64_t f) {
  return weigh(robust::smea(), gram, f);
}

inline Coefficients covariance_filter(const GramView& gram, int64_t f, Variant variant) {
  return weigh(robust::caf(), gram, f, of_variant(variant));
}

}  // namespace hanse
