#include "federated/forging.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

namespace {

std::vector<int64_t> clients_at(const RoundRoles& roles, std::span<const int64_t> positions) {
  std::vector<int64_t> clients;
  for (const int64_t at : positions) clients.push_back(roles.clients[to_index(at)]);
  return clients;
}

// The sink's rows of these positions.
std::vector<OwnedRow> rows_at(const UpdateSink& sink, std::span<const int64_t> positions) {
  std::vector<OwnedRow> rows = sink.rows();
  std::erase_if(rows, [&](const OwnedRow& row) {
    return std::ranges::find(positions, row.position) == positions.end();
  });
  return rows;
}

}  // namespace

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

std::vector<int64_t> RoundRoles::attacking_clients() const {
  return clients_at(*this, attacking());
}

Forging::Forging(Communicator& comm, Attackers& attackers, int64_t n_params, int64_t most,
                 int64_t made)
    : comm_(comm), attackers_(attackers), n_params_(n_params), most_(most), made_(made) {}

bool Forging::begin(int64_t round, const RoundRoles& roles) {
  round_ = round;
  roles_ = roles;
  honest_ = roles.honest();
  attacking_ = roles.attacking();
  return !honest_.empty() && !attacking_.empty();
}

void Forging::make_rows(UpdateSink& sink, int64_t first, std::span<const float> last) {
  first_ = first;
  const auto size = to_index(n_params_);
  const std::vector<OwnedRow> honest = rows_at(sink, honest_);
  find_mean(honest);
  p_.assign(comm_.rank() == 0 ? size : 0, 0.0F);
  const ForgedDirection direction = attackers_.needs().direction;
  if (direction == ForgedDirection::kDeviation) find_deviation(honest, p_);
  for (std::size_t i = 0; i < p_.size() && direction == ForgedDirection::kSign; ++i) {
    p_[i] = h_[i] == 0 ? 0.0F : std::copysign(1.0F, h_[i]);
  }
  if (comm_.rank() != 0) return;
  if (direction == ForgedDirection::kOwn) attackers_.fill(round_, 0, p_);
  sink.add_row({first_, h_});
  sink.add_row({first_ + 1, p_});
  if (made_ > 2) sink.add_row({first_ + 2, last});
}

// h = 2^e / H sum u_i 2^-e, an exact sum; e is 0 but for values that no sum would take.
void Forging::find_mean(std::span<const OwnedRow> honest) {
  double largest = 0;
  for (const OwnedRow& row : honest) {
    for (const float value : row.values) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
  }
  largest = comm_.allreduce_one(largest, ReduceOp::kMax);
  UpdateSum sum(n_params_, most_, Reduction::kExact);
  const int e = largest < sum.limit() ? 0 : std::ilogb(largest / sum.limit()) + 1;
  for (const OwnedRow& row : honest) sum.add(row.values, std::ldexp(1, -e));
  const auto units = sum.integers(0, n_params_);
  comm_.allreduce(units, ReduceOp::kSum);
  h_.resize(to_index(n_params_));
  const double one = UpdateSum::kUnits * static_cast<double>(honest_.size());
  for (std::size_t i = 0; i < h_.size(); ++i) {
    h_[i] = static_cast<float>(std::ldexp(static_cast<double>(units[i]) / one, e));
  }
}

// s = 2^e sqrt(sum ((u_i - h) 2^-e)^2 / (H - 1)), 2^e above the largest |u_i - h| of all ranks:
// each term is rounded once to 2^-44, so that the sum does not depend on its order, and late in
// training nothing is lost.
void Forging::find_deviation(std::span<const OwnedRow> honest, std::span<float> p) {
  double largest = 0;
  for (const OwnedRow& row : honest) {
    for (std::size_t i = 0; i < h_.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(row.values[i]) - h_[i]));
    }
  }
  largest = comm_.allreduce_one(largest, ReduceOp::kMax);
  int e = 0;
  std::frexp(largest, &e);
  const double down = std::ldexp(1, -e), up = std::ldexp(1, e);
  std::vector<int64_t> squares(h_.size());
  for (const OwnedRow& row : honest) {
    for (std::size_t i = 0; i < h_.size(); ++i) {
      const double away = (static_cast<double>(row.values[i]) - h_[i]) * down;
      squares[i] += std::llrint(away * away * UpdateSum::kUnits);
    }
  }
  comm_.reduce(std::span(squares), ReduceOp::kSum, 0);
  const double others = std::max<double>(1, static_cast<double>(honest_.size()) - 1);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double square = static_cast<double>(squares[i]) / UpdateSum::kUnits / others;
    p[i] = static_cast<float>(up * std::sqrt(square));
  }
}

// Positions of the rows that attackers see: (u, h, p) or (u, h, p, g).
std::vector<int64_t> Forging::seen() const {
  std::vector<int64_t> positions = honest_;
  for (int64_t i = first_; i < rows(); ++i) positions.push_back(i);
  return positions;
}

// Coefficients of all rows from those of the rows that attackers see.
std::vector<double> Forging::widened(std::span<const double> row) const {
  const std::vector<int64_t> positions = seen();
  std::vector<double> wide(to_index(rows()));
  for (std::size_t i = 0; i < positions.size(); ++i) wide[to_index(positions[i])] = row[i];
  return wide;
}

void Forging::decide(std::span<const double> gram, const Displacement& displacement) {
  const std::vector<int64_t> seen = this->seen();
  std::vector<double> entries;
  const GramView all{gram, to_index(rows())};
  for (const int64_t i : seen) {
    for (const int64_t j : seen) entries.push_back(all(to_index(i), to_index(j)));
  }
  const auto honest = clients_at(roles_, honest_), byzantine = clients_at(roles_, attacking_);
  const AttackRow found = attackers_.forge(
      {.round = round_,
       .honest = honest,
       .byzantine = byzantine,
       .gram = {entries, seen.size()},
       .displacement = [&](std::span<const double> row) { return displacement(widened(row)); }});
  row_ = widened(found.coefficients);
  strength_ = found.strength;
}

std::vector<double> Forging::products(std::span<const double> gram) const {
  const auto n = to_index(first_), all = to_index(rows());
  const GramView view{gram, all};
  std::vector<double> with_a(all);  // u_i.a
  for (std::size_t i = 0; i < all; ++i) {
    for (std::size_t j = 0; j < all; ++j) {
      if (row_[j] != 0) with_a[i] += row_[j] * view(i, j);
    }
  }
  const double square = view.product(row_, row_);
  const auto forged = [&](std::size_t i) {
    return i < roles_.byzantine.size() && roles_.byzantine[i];
  };
  std::vector<double> products(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      products[i * n + j] = forged(i) && forged(j) ? square
                            : forged(i)            ? with_a[j]
                            : forged(j)            ? with_a[i]
                                                   : view(i, j);
    }
  }
  return products;
}

std::vector<double> Forging::spread(std::span<const double> coefficients) const {
  std::vector<double> out(to_index(rows()));
  std::ranges::copy(coefficients, out.begin());
  double forged = 0;
  for (const int64_t at : attacking_) forged += std::exchange(out[to_index(at)], 0);
  for (std::size_t i = 0; i < out.size() && forged != 0; ++i) out[i] += forged * row_[i];
  return out;
}

}  // namespace hanse
