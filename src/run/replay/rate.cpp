#include <cmath>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "hanse/job/job.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"

namespace hanse {

namespace {

// The pairs with curvature, at most the `most` newest: s_1, y_1, ..., s_n, y_n.
std::vector<std::vector<double>> usable_pairs(const Json& pairs, std::size_t width, int64_t most) {
  if (!pairs.is_array()) throw InvalidArgument("expected a list of [s, y]", "trace.pairs");
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto where = fmt::format("pairs[{}]", i);
    if (!pairs[i].is_array() || pairs[i].size() != 2) {
      throw InvalidArgument("expected [s, y]", where);
    }
    auto step = numbers(pairs[i][0], width, -INFINITY, where + ".s");
    auto change = numbers(pairs[i][1], width, -INFINITY, where + ".y");
    if (!has_curvature(inner_product(step, step), inner_product(step, change),
                       inner_product(change, change))) {
      continue;
    }
    rows.push_back(std::move(step));
    rows.push_back(std::move(change));
  }
  const auto extra = std::max<std::ptrdiff_t>(0, std::ssize(rows) - 2 * most);
  rows.erase(rows.begin(), rows.begin() + extra);
  return rows;
}

}  // namespace

// {"pairs": [[s, y], ...], oldest first, "gradient": g} -> {"rate": d}; {"loss": F} -> {"rate": d}
// with client.rate = loss.
Json replay_rate(const Json& trace, const Job& job, bool) {
  if (job.client.rate == LoweringRate::kLoss) {
    const double loss = number(field(trace, "loss", "trace"), "trace.loss");
    return {{"rate", std::pow(loss, job.client.rate_power)}};
  }
  const Json& given = field(trace, "gradient", "trace");
  if (!given.is_array()) throw InvalidArgument("expected a list of numbers", "trace.gradient");
  const std::size_t width = given.size();
  const auto gradient = numbers(trace, "gradient", width, -INFINITY, "trace");
  const double plain = job.client.lr * inner_product(gradient, gradient);
  if (job.client.rate == LoweringRate::kGradient || !trace.contains("pairs"))
    return {{"rate", plain}};
  auto rows = usable_pairs(trace.at("pairs"), width, job.client.pairs);
  if (rows.empty()) return {{"rate", plain}};
  const auto n = static_cast<int64_t>(rows.size() / 2);
  rows.push_back(gradient);
  std::vector<double> gram;
  for (const auto& a : rows) {
    for (const auto& b : rows) gram.push_back(inner_product(a, b));
  }
  return {{"rate", lbfgs_rate(gram, n)}};
}

}  // namespace hanse
