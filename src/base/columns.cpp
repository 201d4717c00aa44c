#include "hanse/base/columns.hpp"

#include <limits>

namespace hanse {

namespace {

void append(Metrics& all, const Metrics& more) { all.insert(all.end(), more.begin(), more.end()); }

}  // namespace

Metrics Columns::of_round(int64_t round) const {
  Metrics all;
  for (const auto& [numbers, first] : rounds_) {
    for (const auto& [name, value] : numbers()) {
      all.emplace_back(name, round < first ? std::numeric_limits<double>::quiet_NaN() : value);
    }
  }
  return all;
}

Metrics Columns::of_client(int64_t client) const {
  Metrics all;
  for (const auto& numbers : clients_) append(all, numbers(client));
  return all;
}

Metrics Columns::of_run() const {
  Metrics all;
  for (const auto& numbers : summary_) append(all, numbers());
  return all;
}

}  // namespace hanse
