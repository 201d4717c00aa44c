#include "rows.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

Rows read_rows(const Json& round, const std::string& where) {
  const Json& value = field(round, "rows", where);
  if (!value.is_array() || value.empty() || !value[0].is_array()) {
    throw InvalidArgument("expected rows of numbers", where + ".rows");
  }
  Rows rows;
  for (std::size_t i = 0; i < value.size(); ++i) {
    rows.push_back(
        numbers(value[i], value[0].size(), -INFINITY, fmt::format("{}.rows[{}].row", where, i)));
  }
  return rows;
}

std::vector<double> gram_of_rows(const Rows& rows) {
  std::vector<double> gram;
  for (const auto& a : rows) {
    for (const auto& b : rows) gram.push_back(inner_product(a, b));
  }
  return gram;
}

std::vector<double> step_by_columns(const Mix& mix, const Rows& rows, ColumnFunction* own) {
  std::vector<double> update(rows.front().size());
  if (!mix.columns) return update;
  std::vector<const double*> values;
  for (const auto& row : rows) values.push_back(row.data());
  const auto n = static_cast<std::size_t>(mix.columns->n);
  if (own) {
    std::vector<double> mapped(n * update.size());
    map_values(*mix.columns, std::span<const double* const>(values), mapped);
    own->step(mapped, mix.columns->weights, update);
    return update;
  }
  std::vector<int64_t> lattice(n * update.size());
  step_columns(*mix.columns, values, lattice, update);
  return update;
}

}  // namespace hanse
