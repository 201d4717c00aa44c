// The experts of online stochastic mirror descent: one distribution each over the clients of an
// urn.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "urn_sampler.hpp"

namespace hanse {

// Expert e has p_m = scale v_m for the clients above the floor alpha/M, and the floor for the rest.
// Columns e and E + e of the urn's rows hold v_m (0: at the floor) and whether it is above.
class OsmdExperts {
 public:
  // Works on the rows of `urn`, which outlives the object.
  OsmdExperts(Urn& urn, double alpha);

  // Starts `count` experts at the uniform distribution, for clients without a row; rows keep slots.
  void start(std::size_t count);

  std::size_t size() const { return scales_.size(); }
  double floor() const { return floor_; }
  double scale(std::size_t e) const { return scales_[e]; }
  double common(std::size_t e) const { return commons_[e]; }
  void set_common(std::size_t e, double v) { commons_[e] = v; }
  // p of the clients without a row.
  double level(std::size_t e) const { return commons_[e] > 0 ? scales_[e] * commons_[e] : floor_; }
  // p of a client with a row.
  double probability(std::size_t e, int64_t slot) const {
    const double v = urn_.row(slot)[e];
    return v > 0 ? scales_[e] * v : floor_;
  }

  // Sets v of a client with a row; 0: at the floor. The slot's refresh is due: refresh_all(), or
  // project() with it.
  void set(std::size_t e, int64_t slot, double v);
  void refresh_all();

  // The slots of the drawn clients; a client without one gets one that says what it was before.
  std::vector<int64_t> slots_of(const Draw& draw);
  // log p of these slots <- raised, never lower than it was; adds other slots that move to
  // `changed`.
  void raise(std::size_t e, std::span<const double> raised, std::span<const int64_t> slots,
             std::vector<int64_t>& changed);
  // Brings every expert back to {p >= floor, sum p = 1}, the nearest point in relative entropy,
  // after the rows of these slots changed.
  void project(std::vector<int64_t> changed);

  // Comes after the urn's visit().
  void visit(StateFields& fields);

 private:
  // v and the slot of a client with a row above the floor; v may be behind the row's, which only
  // grows.
  using Entry = std::pair<double, int64_t>;
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;  // smallest on top

  void lower(std::size_t e, double exponent, std::vector<int64_t>& changed);
  bool settle(std::size_t e, std::vector<int64_t>& changed);
  void rebuild_heap(std::size_t e);
  void rebuild_heaps();

  Urn& urn_;
  double alpha_;
  double floor_;                 // alpha/M
  std::vector<double> scales_;   // [E]
  std::vector<double> commons_;  // [E] v of the clients without a row
  std::vector<Heap> heaps_;      // [E]
};

}  // namespace hanse
