#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "json.hpp"

namespace hanse {

namespace {

// A symmetric [k, k] matrix, appended to `all`.
void read_matrix(const Json& value, std::size_t k, const std::string& where,
                 std::vector<double>& all) {
  if (!value.is_array() || value.size() != k) {
    throw InvalidArgument(fmt::format("expected {} rows of {} numbers", k, k), where);
  }
  const std::size_t begin = all.size();
  for (std::size_t i = 0; i < k; ++i) {
    const Json row = {{"row", value[i]}};
    for (const double x : numbers(row, "row", k, -INFINITY, fmt::format("{}[{}]", where, i))) {
      all.push_back(x);
    }
  }
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[begin + i * k + j] == all[begin + j * k + i]) continue;
      throw InvalidArgument(fmt::format("entries [{}][{}] and [{}][{}] differ", i, j, j, i), where,
                            "inner products are symmetric");
    }
  }
}

// [[K x K]], or a list of such, one a layer.
std::vector<double> read_gram(const Json& round, std::size_t& k, const std::string& where) {
  const Json& gram = field(round, "gram", where);
  const auto is_row = [](const Json& value) {
    return value.is_array() && !value.empty() && value[0].is_array();
  };
  if (!is_row(gram)) throw InvalidArgument("expected rows of numbers", where + ".gram");
  std::vector<double> all;
  if (!is_row(gram[0])) {
    k = gram.size();
    read_matrix(gram, k, where + ".gram", all);
    return all;
  }
  k = gram[0].size();
  for (std::size_t layer = 0; layer < gram.size(); ++layer) {
    read_matrix(gram[layer], k, fmt::format("{}.gram[{}]", where, layer), all);
  }
  return all;
}

// [K], what the rule calls its weights; or [L, K] of the layers.
Json weights_of(const Mix& mix, std::size_t k) {
  const auto& all = mix.response.empty() ? mix.coefficients : mix.response;
  if (all.size() == k) return all;
  Json layers = Json::array();
  for (auto row = all.begin(); row != all.end(); row += static_cast<std::ptrdiff_t>(k)) {
    layers.push_back(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(k)));
  }
  return layers;
}

Json replay_round(const Json& round, int64_t t, Aggregator& rule) {
  const auto where = fmt::format("rounds[{}]", t - 1);
  if (!round.is_object()) throw InvalidArgument("expected an object", where);
  const AggregatorNeeds needs = rule.needs();
  std::size_t k = 0;
  const auto gram = read_gram(round, k, where);
  if (!needs.layers && gram.size() > k * k) {
    throw InvalidArgument("expected one matrix, not one a layer", where + ".gram");
  }
  std::vector<int64_t> clients(k);
  for (std::size_t i = 0; i < k; ++i) clients[i] = static_cast<int64_t>(i);
  const auto lambda = shares_of_sizes(round, k, needs.sizes, 0, where);
  const auto draw_weights = numbers_or(round, "draw_weights", k, 1, where);
  std::vector<double> rates, losses;
  if (needs.rates) rates = numbers(round, "rates", k, 0, where);
  if (needs.losses) losses = numbers(round, "losses", k, -INFINITY, where);
  const Mix mix = mix_of(rule,
                         {.round = t,
                          .clients = clients,
                          .lambda = lambda,
                          .draw_weights = draw_weights,
                          .losses = losses,
                          .gram = gram,
                          .rates = rates},
                         where);
  return {{"weights", weights_of(mix, k)},
          {"squared_norm", mix.direction.squared_norm},
          {"ridge", mix.direction.ridge},
          {"scale", mix.direction.scale},
          {"dropped", mix.direction.dropped}};
}

}  // namespace

Json replay_gram(const Json& trace, Aggregator& rule) {
  Json result = {{"rounds", Json::array()}};
  for (const Json& round : rounds_of(trace)) {
    const auto t = static_cast<int64_t>(result["rounds"].size()) + 1;
    result["rounds"].push_back(replay_round(round, t, rule));
  }
  return result;
}

}  // namespace hanse
