#include "federated/known_round.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/rules/aggregation/gram_view.hpp"

namespace hanse {

std::vector<int64_t> RoundRoles::honest() const {
  std::vector<int64_t> positions;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (!byzantine[i] && finite[i]) positions.push_back(static_cast<int64_t>(i));
  }
  return positions;
}

std::vector<int64_t> RoundRoles::attacking() const {
  std::vector<int64_t> positions;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (byzantine[i]) positions.push_back(static_cast<int64_t>(i));
  }
  return positions;
}

std::vector<int64_t> RoundRoles::at(std::span<const int64_t> positions) const {
  std::vector<int64_t> chosen;
  for (const int64_t at : positions) chosen.push_back(clients[to_index(at)]);
  return chosen;
}

std::vector<double> KnownRound::seen_products(std::span<const double> all) const {
  const GramView view{all, rows};
  std::vector<double> with_forged(rows);  // u_i.a
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rows; ++j) {
      if (forged[j] != 0) with_forged[i] += forged[j] * view(i, j);
    }
  }
  const double square = view.product(forged, forged);
  const auto is_forged = [&](std::size_t i) {
    return i < roles.byzantine.size() && roles.byzantine[i];
  };
  std::vector<double> products(seen * seen);
  for (std::size_t i = 0; i < seen; ++i) {
    for (std::size_t j = 0; j < seen; ++j) {
      products[i * seen + j] = is_forged(i) && is_forged(j) ? square
                               : is_forged(i)               ? with_forged[j]
                               : is_forged(j)               ? with_forged[i]
                                                            : view(i, j);
    }
  }
  return products;
}

std::vector<double> KnownRound::spread(std::span<const double> coefficients) const {
  std::vector<double> out(coefficients.begin(), coefficients.end());
  if (forged.empty()) return out;
  out.resize(rows);
  double share = 0;
  for (std::size_t i = 0; i < roles.byzantine.size(); ++i) {
    if (roles.byzantine[i]) share += std::exchange(out[i], 0);
  }
  for (std::size_t i = 0; i < rows && share != 0; ++i) out[i] += share * forged[i];
  return out;
}

}  // namespace hanse
