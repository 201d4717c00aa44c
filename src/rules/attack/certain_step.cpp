#include "hanse/rules/attack/certain_step.hpp"

#include <algorithm>
#include <span>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// m equal ones of n sorted values lie on all places of [begin, end), wherever the others are.
bool covers(int64_t m, int64_t n, int64_t begin, int64_t end) { return n - m <= begin && end <= m; }

bool is_certain(const ColumnRule& rule, int64_t m, int64_t n) {
  if (rule.kind == ColumnKind::kOwn) return false;
  if (rule.kind == ColumnKind::kTrimmedMean) return covers(m, n, rule.count, n - rule.count);
  const bool median = covers(m, n, (n - 1) / 2, n / 2 + 1);
  return median && (rule.kind == ColumnKind::kMedian || rule.count <= m);
}

}  // namespace

std::optional<std::vector<double>> certain_step(const ColumnMix& mix) {
  if (mix.n == 0) return std::nullopt;
  const std::size_t k = mix.map.size() / to_index(mix.n);
  const auto row = [&](int64_t a) { return std::span(mix.map).subspan(to_index(a) * k, k); };
  for (int64_t a = 0; a < mix.n; ++a) {
    int64_t same = 0;
    for (int64_t b = 0; b < mix.n; ++b) same += std::ranges::equal(row(a), row(b));
    if (is_certain(mix.rule, same, mix.n)) return std::vector<double>(row(a).begin(), row(a).end());
    if (2 * same >= mix.n) break;  // no other row is as frequent
  }
  return std::nullopt;
}

}  // namespace hanse
