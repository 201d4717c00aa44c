#include "rules.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "keys.hpp"

namespace hanse {

namespace {

constexpr RobustBound kArcBound{2, 1, "Allouah et al. 2024"};
constexpr RobustBound kNnmBound{2, 1, "Allouah et al. 2023"};

std::optional<InvalidArgument> below(std::string_view rule, const RobustBound& bound,
                                     Variant variant, int64_t n, int64_t f) {
  const int64_t least =
      bound.times * f + (variant == Variant::kReference ? bound.more_in_reference : bound.more);
  if (n >= least) return {};
  return InvalidArgument(fmt::format("{} with f = {} needs at least {} rows ({}), not {}", rule, f,
                                     least, bound.paper, n),
                         "aggregator.byzantine",
                         "draw more participants, or use aggregator.shortfall = skip");
}

// The rule alone, on n rows.
std::optional<InvalidArgument> shortfall_of_rule(const RobustRule& rule, const RobustOptions& o,
                                                 int64_t n, int64_t f) {
  if (n < 1) {
    return InvalidArgument("no participant has sent a finite update", "",
                           "aggregator.shortfall = skip makes no step in such rounds");
  }
  auto found = below(rule.name, rule.bound, o.variant, n, f);
  return !found && rule.lacks ? rule.lacks(o, n, f) : found;
}

}  // namespace

std::span<const RobustRule> robust_rules() {
  static const auto rules = [] {
    std::vector<RobustRule> all;
    for (const auto& make : robust::kRules) all.push_back(make());
    return all;
  }();
  return rules;
}

const RobustRule* find_robust_rule(std::string_view name) {
  static const RobustRule mean = robust::mean();
  if (name == mean.name) return &mean;
  const auto found = std::ranges::find(robust_rules(), name, &RobustRule::name);
  return found == robust_rules().end() ? nullptr : &*found;
}

Keys<AggregatorOptions> robust_keys() {
  using robust::key, robust::Options;
  return {key()("byzantine", &Options::byzantine,
                "f, how many participants of a round may send anything: a number, or a share below "
                "0.5, rounded up; auto: the share of the clients that attack"),
          key()("before", &Options::before,
                "what is made of the updates first, in this order: clip(c) to a longest length, "
                "arc (the longest ones clipped), nnm (each mixed with its neighbours), "
                "bucketing(s), means of s; or none"),
          key()("shortfall", &Options::shortfall,
                "a round with fewer participants than the rule needs: an error, or no step")};
}

std::size_t RobustRound::pivot() const {
  const auto found =
      std::ranges::find_if(kept, [&](std::size_t i) { return report.clients[i] == options.pivot; });
  return static_cast<std::size_t>(found - kept.begin());
}

std::optional<InvalidArgument> shortfall_of(const RobustOptions& o, int64_t k, int64_t f) {
  int64_t n = k;
  for (const PreRule& rule : o.before.list) {
    std::optional<InvalidArgument> found;
    switch (rule.kind) {
      case PreRuleKind::kClip: break;
      case PreRuleKind::kArc: found = below("arc", kArcBound, o.variant, n, f); break;
      case PreRuleKind::kNnm: found = below("nnm", kNnmBound, o.variant, n, f); break;
      case PreRuleKind::kBucketing:
        n = (n + static_cast<int64_t>(rule.number) - 1) / static_cast<int64_t>(rule.number);
    }
    if (found) return found;
  }
  return shortfall_of_rule(*find_robust_rule(o.kind), o, n, f);
}

}  // namespace hanse
