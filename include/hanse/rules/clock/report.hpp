// What a run tells of its clients' participation and of stale updates.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/clock/buffered_events.hpp"

namespace hanse {

// Tells of the rounds [M] in which each client counted participation_gini, sum_ij |n_i - n_j| / (2
// M sum n), 0 where all took part as often and (M-1)/M where one alone did; participation_entropy,
// -sum p ln p of p_i = n_i / sum n, ln M at most; participation_min. Cost: O(M log M).
Metrics participation_metrics(std::span<const int64_t> counted);

// Counts the members of versions. Its state: how often each client counted, and the staleness.
class BufferedReport : public Stateful {
 public:
  explicit BufferedReport(int64_t clients);

  // Call it once for each version, when its round ends; `kept`: versions that tasks still need.
  void add(const BufferedVersion& version, int64_t kept);

  // Adds to rounds.csv: virtual_seconds, round_virtual_seconds, on_line, staleness_mean,
  // staleness_max, discarded, lost, in_flight_mean, versions_kept; to clients.csv: counted, updates
  // of the client in versions; to summary.json: the participation_metrics() of them, and
  // staleness_0, staleness_1 (updates of that staleness), staleness_2 (of 2 and 3), staleness_4 (4
  // to 7), ..., staleness_1024 (all beyond).
  void add_columns(Columns& columns) const;

 private:
  void visit(StateFields& fields) override;

  std::vector<int64_t> counted_;    // [M]
  std::vector<int64_t> staleness_;  // updates of 0, 1, 2 and 3, 4 to 7, ... versions
  Metrics round_;                   // of the last version
};

}  // namespace hanse
