// How many rows the robust rules need, and what comes before them.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"
#include "hanse/rules/aggregation/robust.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse {

namespace {

// A rule holds against f byzantine rows of n where n >= times f + more.
struct Bound {
  std::string_view rule;
  int64_t times, more;
  std::string_view paper;
  int64_t more_in_reference = more;  // aggregator.variant = reference
};

// The least n with which a rule is what its paper proves it to be: with fewer rows as many rows as
// are byzantine, all alike, can outvote or outscore the others. (Theorems with rates of their own
// may ask for more: those of MoNNA and centered clipping, for example.)
constexpr std::array kBounds = {
    Bound{"mean", 0, 1, "McMahan et al. 2017"},
    Bound{"krum", 2, 3, "Blanchard et al. 2017", 1},
    Bound{"multi-krum", 2, 3, "Blanchard et al. 2017", 1},
    Bound{"mda", 2, 1, "El Mhamdi et al. 2018"},
    Bound{"monna", 2, 1, "Farhadkhani et al. 2023"},
    Bound{"geometric-median", 2, 1, "Pillutla et al. 2022"},
    Bound{"centered-clipping", 2, 1, "Karimireddy et al. 2021"},
    Bound{"fltrust", 0, 1, "Cao et al. 2021"},
    Bound{"smea", 2, 1, "Allouah et al. 2023"},
    Bound{"caf", 2, 1, "Allouah et al. 2025"},
    Bound{"median", 2, 1, "Yin et al. 2018"},
    Bound{"trimmed-mean", 2, 1, "Yin et al. 2018"},
    Bound{"meamed", 2, 1, "Xie et al. 2018"},
    Bound{"bulyan", 4, 3, "El Mhamdi et al. 2018"},
    Bound{"arc", 2, 1, "Allouah et al. 2024"},  // before the rule, as the next
    Bound{"nnm", 2, 1, "Allouah et al. 2023"},
};

constexpr const Bound* bound_of(std::string_view rule) {
  for (const Bound& bound : kBounds) {
    if (bound.rule == rule) return &bound;
  }
  return nullptr;
}

static_assert(
    [] {
      for (const char* name : choices_of(RobustKind{})) {
        if (bound_of(name) == nullptr) return false;
      }
      return bound_of("arc") != nullptr && bound_of("nnm") != nullptr;
    }(),
    "every robust rule has its bound");

std::string below(std::string_view rule, Variant variant, int64_t n, int64_t f) {
  const Bound& bound = *bound_of(rule);
  const int64_t least =
      bound.times * f + (variant == Variant::kReference ? bound.more_in_reference : bound.more);
  if (n >= least) return "";
  return fmt::format("{} with f = {} needs at least {} rows ({}), not {}", rule, f, least,
                     bound.paper, n);
}

// The rule alone, on n rows.
std::string shortfall_of_rule(const RobustOptions& o, int64_t n, int64_t f) {
  if (n < 1) return "no participant has sent a finite update";
  if (const std::string found = below(name_of(o.kind), o.variant, n, f); !found.empty()) {
    return found;
  }
  if (o.kind == RobustKind::kMultiKrum && o.keep > n) {
    return fmt::format("aggregator.keep = {} is more than the {} rows", o.keep, n);
  }
  const bool by_sets = o.kind == RobustKind::kMda || o.kind == RobustKind::kSmea;
  if (by_sets && combinations(n, f, kMostSets + 1) > kMostSets) {
    return fmt::format("{} rows have more than {} sets without {} of them", n, kMostSets, f);
  }
  return "";
}

}  // namespace

std::string shortfall_of(const RobustOptions& o, int64_t k, int64_t f) {
  int64_t n = k;
  for (const PreRule& rule : o.before.list) {
    std::string found;
    switch (rule.kind) {
      case PreRuleKind::kClip: break;
      case PreRuleKind::kArc: found = below("arc", o.variant, n, f); break;
      case PreRuleKind::kNnm: found = below("nnm", o.variant, n, f); break;
      case PreRuleKind::kBucketing:
        if (o.kind == RobustKind::kMonna) return "monna trusts a row, which bucketing averages";
        n = (n + static_cast<int64_t>(rule.number) - 1) / static_cast<int64_t>(rule.number);
    }
    if (!found.empty()) return found;
  }
  return shortfall_of_rule(o, n, f);
}

}  // namespace hanse
