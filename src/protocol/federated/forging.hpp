// The row that the attackers of a round send, as a combination of rows that ranks have.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "federated/update_sink.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/attackers.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

// Who of a round's participants counts as what, in the draw's order.
struct RoundRoles {
  std::vector<int64_t> clients;
  std::vector<char> byzantine;  // [K] attacks
  std::vector<char> finite;     // [K] has trained an update that is finite

  // Positions.
  std::vector<int64_t> honest() const;  // finite ones
  std::vector<int64_t> attacking() const;
  std::vector<int64_t> attacking_clients() const;
};

// Makes h and p of a round (Attackers), and writes the round in terms of the rows that there are:
// those of K participants, the rule's own row where it has one, h, p, and the last aggregate g
// where attackers see it. In the place of a byzantine participant stands
// a = sum_i c_i u_i + c_h h + c_p p + c_g g.
class Forging {
 public:
  // All must outlive it. `n_params`: P; `most`: participants of a round; `made`: how many rows it
  // forges with, 2, or 3 with g.
  Forging(Communicator& comm, Attackers& attackers, int64_t n_params, int64_t most, int64_t made);

  // Begins a round; false where nobody forges: there is no attacker, or nobody is honest. The same
  // on all ranks.
  bool begin(int64_t round, const RoundRoles& roles);
  // Makes h and p of the kept updates, and hands them and g to the sink on rank 0, behind `first`
  // rows. `last`: g [P], on rank 0; it must stay. Collective. Cost: two sums of P values over the
  // ranks, or one, and a broadcast.
  void make_rows(UpdateSink& sink, int64_t first, std::span<const float> last);

  // Rank 0: decides a by `gram` [R, R] of all R rows. `displacement` gets the coefficients [R] of
  // a.
  using Displacement = std::function<double(const std::vector<double>& row)>;
  void decide(std::span<const double> gram, const Displacement& displacement);
  // Takes the coefficients [R] for those of a.
  void try_row(std::vector<double> row) { row_ = std::move(row); }

  // [N, N] the inner products as the rule sees them, of the participants and its own row.
  std::vector<double> products(std::span<const double> gram) const;
  // [R] what the rows count, from what the rule gives to N of them.
  std::vector<double> spread(std::span<const double> coefficients) const;

  int64_t rows() const { return first_ + made_; }  // R
  int64_t mean_row() const { return first_; }      // position of h
  double strength() const { return strength_; }

 private:
  std::vector<int64_t> seen() const;
  std::vector<double> widened(std::span<const double> row) const;
  void find_mean(std::span<const OwnedRow> honest);
  void find_deviation(std::span<const OwnedRow> honest, std::span<float> p);

  Communicator& comm_;
  Attackers& attackers_;
  int64_t n_params_, most_, made_;
  int64_t round_ = 0;
  int64_t first_ = 0;  // N
  RoundRoles roles_;
  std::vector<int64_t> honest_, attacking_;  // positions
  std::vector<float> h_, p_;                 // [P]
  std::vector<double> row_;                  // [R] a
  double strength_ = 0;
};

}  // namespace hanse
