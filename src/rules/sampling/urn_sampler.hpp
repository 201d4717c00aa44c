// M clients of which most are alike, the mass of each, and what the samplers that draw from such an
// urn share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "sum_tree.hpp"

namespace hanse {

// The mass of each client, to which its probability is proportional.
struct UrnLaw {
  std::vector<double> coefficients;  // [width] of a row: its product with them ...
  double individual = 0;             // ... plus this is the mass of a client that has a row
  double common = 0;                 // mass of a client that has none; no row may weigh less
};

// Clients that a rule has touched have a row of numbers each; all others are alike and cost
// nothing. A pick costs O(width log rows + log M), whatever M; memory is O(width) a row and M/8
// bytes. The result of a pick depends on rows, absent clients and stream alone, not on how the urn
// came to hold them.
class Urn {
 public:
  // `all_rows`: every client has a row from the start, its slot the client's number.
  Urn(int64_t clients, int64_t width, bool all_rows = false);

  int64_t clients() const { return available_.clients(); }
  int64_t rows() const { return static_cast<int64_t>(rows_.size()) / width_; }
  int64_t alike() const { return clients() - rows(); }  // clients without a row

  // Where the client's row is; -1: it has none.
  int64_t slot(int64_t client) const;
  // Gives the client a row of zeros; refresh() is due. REQUIRES: it has none. Returns the slot.
  int64_t add(int64_t client);
  // The client's slot; refresh() is due when it had no row.
  int64_t slot_or_add(int64_t client) {
    const int64_t found = slot(client);
    return found >= 0 ? found : add(client);
  }
  int64_t client_of(int64_t slot) const;

  // The numbers of a slot [width]. After a change, refresh() with that slot is due.
  std::span<double> row(int64_t slot) { return {&rows_[offset(slot)], wide()}; }
  std::span<const double> row(int64_t slot) const { return {&rows_[offset(slot)], wide()}; }
  void refresh(std::span<const int64_t> slots);
  void refresh_all();
  // Makes all rows zeros of another width, each in its slot.
  void reshape(int64_t width);

  // Sum of a column over all rows, of clients that are away too.
  double sum(int64_t column) const;

  // These clients come or go. Cost O(width log rows + log M) each.
  void toggle(std::span<const int64_t> clients);
  // Makes all clients available again.
  void call_back();
  // Clients that may be drawn.
  const ClientSet& available() const { return available_; }

  double mass(const UrnLaw& law, int64_t client) const;
  double available_mass(const UrnLaw& law) const;

  // The client at `target` in [0, available_mass(law)) when the available stand side by side, each
  // as wide as its mass.
  int64_t pick(double target, const UrnLaw& law) const;

  // Puts the client out of reach until unhide(). REQUIRES: it is available.
  void hide(int64_t client);
  void unhide(std::span<const int64_t> clients) { flip(clients); }

  // The fields "urn/..."; all clients are available after a load.
  void visit(StateFields& fields);

 private:
  std::size_t wide() const { return static_cast<std::size_t>(width_); }
  std::size_t offset(int64_t slot) const { return static_cast<std::size_t>(slot * width_); }
  void put_leaf(SumTree& tree, int64_t slot, bool there);
  void put_leaves(int64_t slot);
  void flip(std::span<const int64_t> clients);

  int64_t width_;
  bool all_rows_;
  ClientSet available_;
  std::vector<double> rows_;                    // [rows, width]
  std::vector<int64_t> clients_;                // [rows] of each slot; empty when all have rows
  std::unordered_map<int64_t, int64_t> slots_;  // the other way round
  SumTree present_;                             // rows of the available and not hidden
  std::optional<SumTree> absent_;               // the other rows; none until somebody is away
};

// Draws K of the available by the law, with the weights that make an unbiased sum of them: with
// replacement N/(K q); without, for the j-th (1/p_(j) + K - j)/K, p_(j) its probability among those
// not yet drawn (Zhao et al. 2025, Algorithm 7, telescoped). Without replacement it stops when
// nobody with mass is left. Where not more than K are there, it draws everyone. Cost of a draw: O(K
// (width log rows + log M)).
class UrnSampler : public ClientSampler {
 public:
  Draw draw(int64_t round, int64_t n, RandomStream& stream) override;
  Draw impose(int64_t n, std::span<const int64_t> draws) override;
  double probability(int64_t client) const override { return urn_.mass(law(), client); }
  void toggle(std::span<const int64_t> clients) override { urn_.toggle(clients); }
  const ClientSet& available() const override { return urn_.available(); }

 protected:
  UrnSampler(int64_t clients, int64_t per_round, bool replacement, Urn urn)
      : ClientSampler(clients, per_round), urn_(std::move(urn)), replacement_(replacement) {
    check_per_round(per_round, clients, replacement);
  }
  // The masses of the next draw; over all clients they sum to 1.
  virtual UrnLaw law() const = 0;
  bool takes_everyone(int64_t n) const { return !available().full() && available().size() <= n; }

  Urn urn_;

 private:
  bool replacement_;
};

// A sampler that scales its updates by a bound of the feedback; its state is the urn, the bound and
// what it adds.
class BoundedSampler : public UrnSampler {
 public:
  bool needs_all_clients() const override { return awaits_bound_; }
  void observe_all(std::span<const double> a) override;

 protected:
  // The bound is kept as the field `name` of the state.
  BoundedSampler(const LearningOptions& options, int64_t clients, int64_t per_round, Urn urn,
                 const char* name)
      : UrnSampler(clients, per_round, options.replacement, std::move(urn)),
        options_(options),
        bound_(options.bound == BoundSource::kGiven ? options.a_max : 0),
        name_(name) {}
  // The bound by the a_i of all clients: their largest.
  virtual double bound_of(std::span<const double> a) const;
  virtual void set_bound(double bound) { bound_ = bound; }
  void visit(StateFields& fields) override;

  LearningOptions options_;
  double bound_;  // 0: not known, or every gradient so far was zero
  bool awaits_bound_ = false;

 private:
  const char* name_;
};

}  // namespace hanse
