// Participants that lie: who they are, and what they send in the place of what they have trained.
//
// A round with attackers that forge their updates: all train, and every rank keeps its updates. The
// exact mean h of the honest ones goes to all ranks. With it they make a second row p, by default
// the deviation of the honest updates in each column. The inner products of the honest u_i, h and p
// follow, and rank 0 decides the row
//   a = sum_i c_i u_i + c_h h + c_p p (+ c_g g)
// that every byzantine participant of the round is taken to have sent. No rank ever has a: its
// inner products follow from those of (u, h, p), and what the rule gives to it goes to those rows.
// An attack may also see g: what the rule made of the last round that had a step, before the server
// optimizer; 0 in the first.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/attacks.hpp"
#include "hanse/rules/aggregation/gram_view.hpp"

namespace hanse {

// What the row p of a forged update is.
enum class ForgedDirection {
  kNone,       // 0
  kDeviation,  // the deviation s of the honest updates in each column, with ddof 1
  kSign,       // sign(h) in each column
  kOwn         // what Attackers::fill() writes
};

// What attackers need to forge. Where they do not, they send what they have trained, which a stage
// or other labels may have spoilt.
struct ForgeNeeds {
  bool forges = false;
  bool last = false;  // they see the last aggregate g; known on rank 0 alone
  ForgedDirection direction = ForgedDirection::kNone;
};

// What attackers see of a round, on rank 0. Honest participants whose update is not finite are in
// none of these.
struct ForgeView {
  int64_t round = 0;                   // from 1
  std::span<const int64_t> honest;     // [H] clients, in the draw's order
  std::span<const int64_t> byzantine;  // [f]
  GramView gram;                       // [R, R] of (u, h, p), or of (u, h, p, g)
  // |F - h|^2 for what the rule makes, F, of the round when the byzantine participants send the row
  // of these coefficients [R]. The rule forgets the trial. Cost: that of the rule; for one by
  // columns a pass over all ranks' updates.
  std::function<double(std::span<const double> row)> displacement;
};

// An object a rank, the same on all of them. State: rank 0's, what the attack remembers.
class Attackers : public Stateful {
 public:
  // [K] 1 where a participant of this round attacks in it, else 0. Pure.
  virtual std::vector<char> among(int64_t round, std::span<const int64_t> clients) const = 0;
  virtual ForgeNeeds needs() const { return {}; }
  // kOwn: writes the entries [begin, begin + p.size()) of p, on rank 0. Pure.
  virtual void fill(int64_t /*round*/, int64_t /*begin*/, std::span<float> /*p*/) const {}
  // Rank 0: the coefficients [R] of the forged row. A coefficient that is not finite makes a row
  // that is not. Called in rounds that have byzantine participants and H >= 1.
  virtual AttackRow forge(const ForgeView& /*view*/) { return {}; }
  // Rank 0: adds the attack's own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}
};

// The needs of a rule whose participants may forge their updates: these are kept until all have
// trained, and their inner products are known.
AggregatorNeeds needs_among(AggregatorNeeds needs, const ForgeNeeds& attack);
AggregatorNeeds needs_among(const AggregatorNeeds& needs, const Attackers* attackers);

}  // namespace hanse
