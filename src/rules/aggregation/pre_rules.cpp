#include "hanse/rules/aggregation/pre_rules.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/products.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/text.hpp"
#include "places.hpp"

namespace hanse {

namespace {

constexpr const char* kKnown = "none, or a list of clip(c), arc, nnm, bucketing(s)";

InvalidArgument unknown_rule(std::string_view item, const char* hint) {
  return InvalidArgument(fmt::format("unknown value '{}'", item), "", hint);
}

PreRule parse_rule(std::string_view item) {
  if (item == "arc") return {PreRuleKind::kArc};
  if (item == "nnm") return {PreRuleKind::kNnm};
  const auto open = item.find('(');
  if (open == std::string_view::npos || item.back() != ')') throw unknown_rule(item, kKnown);
  const auto number = number_in(trim(item.substr(open + 1, item.size() - open - 2)));
  const std::string_view word = trim(item.substr(0, open));
  if (!number || !std::isfinite(*number)) throw unknown_rule(item, kKnown);
  if (word == "clip") {
    if (!(*number > 0)) throw unknown_rule(item, "clip(c) takes a length above 0");
    return {PreRuleKind::kClip, *number};
  }
  if (word != "bucketing") throw unknown_rule(item, kKnown);
  if (!(*number >= 1) || *number != std::floor(*number)) {
    throw unknown_rule(item, "bucketing(s) takes a whole number of rows, at least 1");
  }
  return {PreRuleKind::kBucketing, *number};
}

// The products of all rows but the last `extra`; `room` keeps them where these are some.
GramView without_last(const GramView& gram, std::size_t extra, std::vector<double>& room) {
  if (extra == 0) return gram;
  const std::size_t n = gram.n - extra;
  room.reserve(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = gram.entries.subspan(i * gram.n, n);
    room.insert(room.end(), row.begin(), row.end());
  }
  return {room, n};
}

// A map that leaves `extra` rows behind the others as they are.
RowMap with_extra(const RowMap& own, std::size_t extra) {
  const std::size_t from = own.from + extra, to = own.to() + extra;
  RowMap map{std::vector<double>(to * from), own.divisors, from};
  map.divisors.resize(to, 1);
  for (std::size_t a = 0; a < to; ++a) {
    if (a >= own.to()) {
      map.weights[a * from + own.from + a - own.to()] = 1;
      continue;
    }
    std::copy_n(own.weights.begin() + static_cast<std::ptrdiff_t>(a * own.from), own.from,
                map.weights.begin() + static_cast<std::ptrdiff_t>(a * from));
  }
  return map;
}

RowMap each_as_it_is(std::size_t n) {
  RowMap map{std::vector<double>(n * n), std::vector<double>(n, 1), n};
  for (std::size_t i = 0; i < n; ++i) map.weights[i * n + i] = 1;
  return map;
}

}  // namespace

PreRules PreRules::parse(std::string_view text) {
  PreRules rules;
  if (trim(text) == "none" || trim(text).empty()) return rules;
  for (const std::string& item : split_list(text)) rules.list.push_back(parse_rule(item));
  return rules;
}

std::string PreRules::text() const {
  if (list.empty()) return "none";
  std::vector<std::string> items;
  for (const PreRule& rule : list) {
    switch (rule.kind) {
      case PreRuleKind::kClip: items.push_back(fmt::format("clip({})", rule.number)); break;
      case PreRuleKind::kArc: items.emplace_back("arc"); break;
      case PreRuleKind::kNnm: items.emplace_back("nnm"); break;
      case PreRuleKind::kBucketing: items.push_back(fmt::format("bucketing({})", rule.number));
    }
  }
  return join(items, ",");
}

bool PreRules::has(PreRuleKind kind) const {
  return std::ranges::count(list, kind, &PreRule::kind) > 0;
}

RowMap clip_rows(const GramView& gram, double longest) {
  RowMap map = each_as_it_is(gram.n);
  for (std::size_t i = 0; i < gram.n; ++i) {
    const double length = std::sqrt(gram(i, i));
    if (length > longest) map.weights[i * gram.n + i] = longest / length;
  }
  return map;
}

double arc_radius(const GramView& gram, int64_t f) {
  const auto n = static_cast<int64_t>(gram.n);
  const int64_t clipped = 2 * f * (n - f) / n;
  std::vector<double> lengths;
  for (std::size_t i = 0; i < gram.n; ++i) lengths.push_back(std::sqrt(gram(i, i)));
  std::ranges::sort(lengths);
  return lengths[static_cast<std::size_t>(n - clipped - 1)];
}

RowMap mix_nearest(const GramView& gram, int64_t f) {
  const std::size_t n = gram.n;
  const std::size_t count = n - static_cast<std::size_t>(f);
  RowMap map{std::vector<double>(n * n), std::vector<double>(n, static_cast<double>(count)), n};
  for (std::size_t i = 0; i < n; ++i) {
    for (const std::size_t j : nearest_places(gram, i, count)) map.weights[i * n + j] = 1;
  }
  return map;
}

RowMap bucket_rows(std::span<const int64_t> permutation, int64_t size) {
  const std::size_t n = permutation.size();
  const auto rows = static_cast<std::size_t>(size);
  const std::size_t buckets = n / rows + (n % rows > 0);
  RowMap map{std::vector<double>(buckets * n), std::vector<double>(buckets), n};
  for (std::size_t at = 0; at < n; ++at) {
    map.weights[at / rows * n + static_cast<std::size_t>(permutation[at])] = 1;
    map.divisors[at / rows] += 1;
  }
  return map;
}

std::vector<int64_t> bucket_permutation(uint64_t seed, int64_t round, std::size_t n) {
  std::vector<int64_t> permutation(n);
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  RandomStream stream(seed, Purpose::kBucket, static_cast<uint64_t>(round));
  stream.shuffle(std::span(permutation));
  return permutation;
}

void MappedRows::apply(const PreRules& rules, int64_t f, std::span<const int64_t> permutation) {
  std::vector<int64_t> order(permutation.begin(), permutation.end());
  for (const PreRule& rule : rules.list) {
    std::vector<double> room;
    const GramView own = without_last(gram_, extra_, room);
    switch (rule.kind) {
      case PreRuleKind::kClip:
      case PreRuleKind::kArc:
        radius_ = rule.kind == PreRuleKind::kClip ? rule.number : arc_radius(own, f);
        append(clip_rows(own, radius_));
        break;
      case PreRuleKind::kNnm: append(mix_nearest(own, f)); break;
      case PreRuleKind::kBucketing:
        append(bucket_rows(order, static_cast<int64_t>(rule.number)));
        order.resize(gram_.n - extra_);
        std::iota(order.begin(), order.end(), int64_t{0});
    }
  }
}

// Applies the map, with the extra rows behind its own. Cost: O(to from (to + from)).
void MappedRows::append(RowMap own) {
  RowMap map = extra_ > 0 ? with_extra(own, extra_) : std::move(own);
  const std::size_t to = map.to(), n = gram_.n;
  std::vector<double> half(to * n);  // weights G
  for (std::size_t a = 0; a < to; ++a) {
    for (std::size_t i = 0; i < n; ++i) {
      const double weight = map.weights[a * n + i];
      for (std::size_t j = 0; weight != 0 && j < n; ++j) {
        half[a * n + j] += weight * gram_(i, j);
      }
    }
  }
  std::vector<double> mapped(to * to);
  for (std::size_t a = 0; a < to; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const auto left = std::span(half).subspan(a * n, n);
      const auto right = std::span(map.weights).subspan(b * n, n);
      mapped[a * to + b] = mapped[b * to + a] =
          inner_product(std::span<const double>(left), std::span<const double>(right)) /
          map.divisors[a] / map.divisors[b];
    }
  }
  entries_ = std::move(mapped);
  gram_ = {entries_, to};
  maps_.push_back(std::move(map));
}

std::vector<double> MappedRows::pull_back(std::span<const double> coefficients) const {
  // Wider sums: a mean of means of equal coefficients is again exactly such a coefficient.
  std::vector<long double> c(coefficients.begin(), coefficients.end());
  for (auto map = maps_.rbegin(); map != maps_.rend(); ++map) {
    std::vector<long double> before(map->from);
    for (std::size_t a = 0; a < map->to(); ++a) {
      for (std::size_t i = 0; i < map->from; ++i) {
        before[i] += c[a] * map->weights[a * map->from + i] / map->divisors[a];
      }
    }
    c = std::move(before);
  }
  return {c.begin(), c.end()};
}

GramView MappedRows::even(std::vector<double>& room) const {
  if (maps_.empty()) return gram_;
  const std::size_t n = gram_.n;
  const std::vector<double> m = matrix();
  const auto row = [&](std::size_t a) { return std::span(m).subspan(a * from_, from_); };
  std::vector<std::size_t> first(n);
  for (std::size_t a = 0; a < n; ++a) {
    while (!std::ranges::equal(row(first[a]), row(a))) ++first[a];
  }
  room.reserve(n * n);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) room.push_back(gram_(first[a], first[b]));
  }
  return {room, n};
}

std::vector<double> MappedRows::matrix() const {
  std::vector<double> m(gram_.n * from_);
  std::vector<double> unit(gram_.n);
  for (std::size_t a = 0; a < gram_.n; ++a) {
    unit[a] = 1;
    std::ranges::copy(pull_back(unit), m.begin() + static_cast<std::ptrdiff_t>(a * from_));
    unit[a] = 0;
  }
  return m;
}

}  // namespace hanse
