// What is known of a round whose updates are kept until the rule has weighed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "federated/findings.hpp"
#include "federated/round_context.hpp"
#include "federated/update_sink.hpp"
#include "hanse/rules/aggregation/robustness.hpp"

namespace hanse {

// What rules that mix after the training learn from it, in the draw's order.
struct Weighable {
  std::span<const double> gram;        // [L, K, K], or with the rule's own row [K + 1, K + 1]
  std::span<const double> statistics;  // [K] rates, or what the sink found: distances
  std::span<const double> norms;       // [K] |theta_i - theta|^2
};

// Who of a round's participants counts as what, in the draw's order.
struct RoundRoles {
  std::vector<int64_t> clients;
  std::vector<char> byzantine;  // [K] attacks
  std::vector<char> finite;     // [K] has trained an update that is finite

  // Positions.
  std::vector<int64_t> honest() const;  // finite ones
  std::vector<int64_t> attacking() const;
  // The clients at these positions.
  std::vector<int64_t> at(std::span<const int64_t> positions) const;
};

// The rows that are weighed: those of K participants and of absent clients, the rule's own, and
// those that attackers forge with. Where they forge, what a byzantine participant has sent stands
// for its row: a combination of all rows, which no rank ever has.
struct KnownRound {
  const RoundContext& context;
  Findings& findings;
  KeptUpdates& kept;                      // this rank's rows
  std::vector<double> statistics, norms;  // Weighable's
  std::size_t updates = 0;                // with those of absent clients
  RoundRoles roles = {};                  // where somebody asks
  std::size_t seen = 0;                   // N rows that the rule sees: with its own
  std::size_t rows = 0;                   // R rows in all
  std::vector<double> gram = {};          // rank 0: [L, R, R], and then as the rule sees it
  std::vector<double> forged = {};        // rank 0: [R] what was forged; empty: nothing

  Weighable told() const { return {.gram = gram, .statistics = statistics, .norms = norms}; }
  // The inner products [N, N] that the rule sees, of those of all rows [R, R].
  std::vector<double> seen_products(std::span<const double> all) const;
  // What all rows count [R], by what the rule gives to those that it sees [N].
  std::vector<double> spread(std::span<const double> coefficients) const;
};

// A round whose rows are weighed: by coefficients, or by columns. Rank 0.
struct WeighedRound {
  const RoundRoles& roles;
  std::span<const double> coefficients;          // [N]; none: the step was by columns
  std::span<const double> gram = {};             // [N, N]; none: not known
  const ColumnDeviations* deviations = nullptr;  // by columns, where some participant is honest
};

}  // namespace hanse
