// What only rank 0 has: whom it draws, how it weighs what they send, and how it steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "federated/idle_rounds.hpp"
#include "federated/known_round.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/state.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/participation.hpp"

namespace hanse {

class Server : public Stateful {
 public:
  // All must outlive it; `acting` may still be empty. REQUIRES: rank 0's.
  Server(const FederatedTrainer::Parts& parts, const FederatedSettings& settings,
         const std::vector<RoundPart*>& acting);

  // Does the next draw need observe_all() with |theta_i - theta|^2 of all clients, [M], first?
  bool needs_all_clients() const { return participation_.needs_all_clients(); }
  void observe_all(std::vector<double> squared_steps, int64_t round);
  // Whose losses the round's draw needs first, nobody once they are there; and F_i of them at the
  // received model. Throws TrainingError that names the client unless all are finite.
  std::vector<int64_t> candidates(int64_t round);
  void take_candidates(std::span<const double> losses);
  const RoundTurnout& draw(int64_t round);
  std::span<const int64_t> drawn() const { return participation_.drawn().clients; }
  std::vector<double> importances() const;  // [K] of the drawn

  // F_i of the participants at the received model, in the draw's order. Throws TrainingError that
  // names the client unless all are finite.
  void take_losses(std::vector<double> losses);
  // Clients whose last updates count beside those of the drawn.
  std::vector<int64_t> absent() const;
  // What the updates count, by the losses it took and, for rules that need them, the findings of
  // the training: coefficients [K] in the draw's order, or [L, K + A] of L layers and A absent
  // clients, or [K + 1] with a row of the rule's own; or a step by columns. Empty without
  // participants.
  Mix mix(const Weighable& trained);
  // Has mix() left any update a weight? Not where all are too old to count.
  bool has_weight() const { return has_weight_; }
  // What the rule alone would make of it. The rule forgets it.
  Mix trial(const Weighable& trained);
  // Tells the rules and the parts what the participants reported. `received` [P]: the model that
  // the first one received. Returns the mean loss over those that trained.
  double observe(const RoundPlan& plan, const Findings& findings, std::span<const float> received);
  // Notes whether the round that observe() has seen makes a step.
  void note_step(bool steps) { idle_.add(steps && counted_ > 0, participation_.turnout()); }
  const IdleRounds& idle() const { return idle_; }
  // Prepares the steps along the sum of a round that observe() has seen; moves `control`, unless it
  // is empty, by the sum of the clients' second rows. REQUIRES: participants.
  void prepare_step(std::span<float> control, std::span<const float> second_row);
  // Steps the model's entries from `begin` on, whose mixed update is there.
  void step(int64_t begin, std::span<float> theta, std::span<float> update);
  // step() as a rule for each entry alone, where it is one; else nothing.
  SumStep by_entry() const;

  // Are the participants' losses behind the step low enough? If not, only `share` of it is taken.
  bool accepts(std::span<const double> losses) const;
  void shorten(double share) { directions_.shorten(share); }

  const Participation& participation() const { return participation_; }
  double mixed_loss() const { return mixed_loss_; }  // weighted by the rule, or NaN

  // Adds its own columns, the rule's and the sampler's.
  void add_columns(Columns& columns) const;
  Metrics metrics() const;
  std::vector<TableLines> take_lines();

 private:
  void visit(StateFields& fields) override;
  RoundReport report(const Weighable& trained) const;
  // `made`: mini-batches, where it made fewer than all; 0: all.
  void move_control(std::span<float> control, std::span<const float> sent) const;
  double feedback(int64_t client, double importance, double squared_norm, int64_t made) const;

  const FederatedTrainer::Parts& parts_;
  const FederatedSettings& settings_;
  const std::vector<RoundPart*>& acting_;
  SentRow sent_;  // the parts of the model's row
  Participation participation_;
  std::string sampling_lines_;  // of sampling.csv, not yet taken
  DirectionReport directions_;  // of rules that need the Gram matrix
  IdleRounds idle_;

  // The round in progress:
  int64_t round_ = 0;
  int64_t measured_ = 0;               // the last round whose candidates' losses are there
  std::vector<double> samples_;        // n_i in the draw's order
  std::vector<double> losses_;         // F_i in the draw's order, when the rule needs them
  std::vector<double> squared_norms_;  // in the draw's order; NaN of a client that was left out
  bool has_weight_ = true;
  double coefficients_ = 0;  // their sum
  double scale_ = 1;         // of the sum of the updates, by the rule
  double mixed_loss_;
  int64_t left_out_ = 0;
  int64_t counted_ = 0;  // updates in the sum
};

}  // namespace hanse
