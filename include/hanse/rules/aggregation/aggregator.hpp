// How much each participant's update counts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/aggregation/column_rules.hpp"
#include "hanse/rules/aggregation/options.hpp"

namespace hanse {

// A row that a rule compares the updates with: its own last step, or the update that the server
// itself makes from data that it trusts.
enum class ExtraRow { kNone, kLastStep, kServer };

// The facts about participants that a rule needs before it can mix.
struct AggregatorNeeds {
  bool sizes = false;         // lambda and samples of RoundReport; the others may be given any
  bool losses = false;        // F_i at the received model, on the client's training samples
  bool norms = false;         // |theta_i - theta|^2, after training, for scale() or a late mix()
  bool full = false;          // every client in every round
  bool gram = false;          // inner products of the updates: coefficients follow after training
  bool layers = false;        // with gram: one Gram matrix a layer of the model
  bool rates = false;         // d_i, the rate at which the client's own step would lower its loss
  bool late = false;          // coefficients follow after training, from norms and rates
  int64_t trials = 0;         // with losses: shorter steps to try until accepts()
  bool last_updates = false;  // with gram: those of absent clients count too, see absent()
  ExtraRow extra_row = ExtraRow::kNone;  // with gram: a row of the rule's behind the participants'
  bool columns = false;  // coefficients are not enough: Mix.columns, after training, from the norms
                         // or the Gram matrix
  bool own_columns = false;  // with columns: they are made by a ColumnFunction on every rank
  bool directions = false;   // with gram: reports tell of the step's direction, DirectionReport
  bool rejects = false;  // updates that are not finite are the rule's to leave out; no step where
                         // nothing is left
  int64_t forging_rows = 0;  // with gram: rows that attackers forge with (protocol/attackers.hpp)
  bool distances = false;    // of the updates' entries that count, with sign_share
  double matrices = 0;  // [K, K] of float64 that the rule holds at once, with its state, beside the
                        // inner products: what it takes of memory
  double cubes = 0;     // K^3 multiplications of a mix(), about
  // An update's entry counts only if the client has had its sign in more than this share of its
  // rounds (client/sign_memory.hpp); the rule weighs by the updates' distances.
  std::optional<double> sign_share = std::nullopt;

  // Are updates kept until the rule has seen the results of the training?
  bool after_training() const { return late || gram || sign_share; }
};

// Statistics of a round's participants; arrays are per participant, in the draw's order.
struct RoundReport {
  int64_t round = 0;                     // from 1
  std::span<const int64_t> clients;      // ids
  std::span<const double> lambda;        // n_i / sum over the federation of n_j
  std::span<const double> draw_weights;  // w_i of Draw
  std::span<const double> losses;        // F_i; empty unless asked for
  std::span<const double> samples = {};  // n_i
  std::span<const double> norms = {};    // |theta_i - theta|^2; empty unless asked for by a late
                                         // rule
  std::span<const double> gram = {};     // [L, K, K] u_i.u_j of the updates u_i = theta_i - theta,
                                         // L layers or 1; empty unless asked for. The last updates
                                         // of A absent clients follow: [L, K + A, K + A], or the
                                         // extra row: [K + 1, K + 1]
  std::span<const double> rates = {};    // [K] d_i; empty unless asked for
  std::span<const double> distances = {};  // [K] of the updates' entries that count; or empty
  // As in WorkTimes.
  std::span<const int64_t> staleness = {};
  std::span<const double> durations = {};
  std::span<const int64_t> permutation = {};  // [K] for bucketing; empty: the rule draws it
};

// How a rule that works on inner products found its step.
struct Direction {
  double squared_norm = 0;  // |x|^2 of the step before `scale`
  double ridge = 0;         // added to the Gram matrix's diagonal
  double scale = 1;         // how much of x is taken
  int64_t dropped = 0;      // participants left out: their updates are zero
};

// theta <- theta + scale() * sum_i coefficients[i] (theta_i - theta), before the server optimizer.
struct Mix {
  std::vector<double> coefficients;   // [K], or [L, K + A] of each layer, or [K + 1]
  std::vector<double> response = {};  // what the rule made of each loss, or of each update when it
                                      // weighs those of unit length; empty: nothing
  Direction direction = {};           // of rules that need the Gram matrix
  std::optional<ColumnMix> columns = std::nullopt;  // in the place of coefficients
  std::vector<int64_t> permutation = {};            // [K] of bucketing, or empty
};

class Aggregator : public Stateful {
 public:
  virtual AggregatorNeeds needs() const { return {}; }
  // Before the participants train; after, where needs().after_training(). Throws InvalidArgument
  // when it cannot weigh them.
  virtual Mix mix(const RoundReport& report) = 0;
  // After they trained: the factor of the whole step, from the report that mix() got and
  // `squared_norms` [K], empty unless asked for. Pure: mix() leaves nothing behind for it.
  virtual double scale(const RoundReport& report, std::span<const double> squared_norms) const;
  // Clients that are not among these participants and whose last updates count in mix() all the
  // same, each of them a participant of an earlier round. Empty unless needs().last_updates.
  virtual std::vector<int64_t> absent(int64_t /*round*/,
                                      std::span<const int64_t> /*participants*/) const {
    return {};
  }
  // Is the step good enough? F_i of the participants before and after it; when not, half of it is
  // tried, needs().trials times in all; then there is no step.
  virtual bool accepts(std::span<const double> before, std::span<const double> after) const;

  // Adds the rule's own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}

  // The weights p over all clients after the round, for rules that keep such: [M], which sum to 1;
  // else empty. Cost: O(M).
  virtual std::vector<double> decision() const { return {}; }
};

// A rule without a state: its needs() and its mix().
std::unique_ptr<Aggregator> make_rule(const AggregatorNeeds& needs,
                                      std::function<Mix(const RoundReport&)> mix);

// [K] the participants' shares q_i: lambda_i by samples, else 1.
std::vector<double> shares_of(const RoundReport& report, ClientWeights weights);

// Coefficients from shares q_i and draw weights w_i. Throws InvalidArgument when the normalized sum
// is not positive.
std::vector<double> estimate(std::span<const double> shares, std::span<const double> draw_weights,
                             Estimator estimator);

// FedAvg (McMahan et al. 2017): every client counts by its samples: q_i = lambda_i; or all count
// the same: q_i = 1/M. REQUIRES: clients >= 1. Cost a round: O(participants).
std::unique_ptr<Aggregator> make_fedavg(ClientWeights weights, Estimator estimator,
                                        int64_t clients);

// min(n_i / cap, 1) of a client that counts by its samples up to `cap` of them (McMahan et al.
// 2018, private).
inline double capped_share(double samples, double cap) { return samples < cap ? samples / cap : 1; }

// FedAvg of such clients: q_i = capped_share(n_i) / all, where `all` is the sum over the
// federation. REQUIRES: cap > 0, all > 0; the normalized estimator does not depend on `all`.
std::unique_ptr<Aggregator> make_capped_fedavg(double cap, double all, Estimator estimator);

// Throws InvalidArgument unless all losses are finite and at least `low`, 0 or -infinity.
void require_losses(std::span<const double> losses, double low);

// The effect of a step x = sum_i c_i u_i on each participant, by the inner products of the updates
// u_i (descent directions, -g_i to first order).
struct StepView {
  double squared_norm = 0;       // |x|^2
  std::vector<double> products;  // [K] u_i.x: positive when x lowers F_i to first order
  std::vector<double> angles;    // [K] degrees between u_i and x; NaN when one of them is zero
  int64_t conflicts = 0;         // u_i that are not zero and have u_i.x <= 0
};

// gram [L, K, K]: inner products of the updates' parts in L layers; coefficients [L, K]. The last
// `absent` updates are left out of the view. Cost: O(L K^2).
StepView view_step(std::span<const double> gram, std::span<const double> coefficients, int64_t k,
                   int64_t absent = 0);

// Weights by an expression of the user's.
// A participant's value is the formula's (rules/formula/formula.hpp), its coefficient the value
// divided by the sum of all values. Names: n, its training samples; lambda, its share of all
// samples; w, the draw's weight, which counts only where the formula uses it; F, its loss; norm,
// |theta_i - theta|^2; K, the participants of the round; M, all clients; round, from 1.
// It needs only the names in the formula: losses for F; for norm the updates are kept until it is
// known. Throws InvalidArgument for a formula that cannot be parsed; mix() does when a value is
// negative or not finite, or all are 0.
// REQUIRES: clients >= 1. Cost a round: O(participants) for each operation.
std::unique_ptr<Aggregator> make_by_formula(const std::string& formula, int64_t clients);

}  // namespace hanse
