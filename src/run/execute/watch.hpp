// What a run's evaluations decide: the best model so far, and when the run may end.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "hanse/base/state.hpp"
#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

class Federation;
class RunDirectory;
struct Job;

// Watches what evaluate.best, run.patience and run.target name. Rank 0.
class Watch final : public Stateful {
 public:
  // Throws InvalidArgument for metrics that evaluations of these data do not have, or never as a
  // number, and for texts that are no such rule. Where the protocol does not read the keys, `reads`
  // is false, and nothing is watched.
  Watch(const Job& job, bool reads, const Federation& federation);

  // Takes the metrics of an evaluation after `round` rounds. Returns whether the model is the best
  // so far. Evaluations without a finite number of what is watched count for nothing, not even for
  // the patience, and the first is warned of. Throws InvalidArgument when there is no such metric,
  // which can only happen to the user's own. Evaluations seen before a resume change nothing.
  bool observe(int64_t round, const Metrics& metrics);

  // run.target where it is watched; else empty.
  const std::string& target() const { return target_text_; }
  // Why the run may end; empty: it goes on.
  std::string end() const;
  // best, best_round and target_round, as far as there are; a run ends at its target, so that its
  // seconds, `virtual_s` (0: there is no clock) and the bytes that its ranks sent are those to the
  // target.
  Metrics results(const RunDirectory& directory, double virtual_s) const;

 private:
  void visit(StateFields& fields) override;
  double number_of(const std::string& name, const std::string& chooser, int64_t round,
                   const Metrics& metrics);

  std::string target_text_;
  std::string best_name_, target_name_;  // metrics; empty: not watched
  bool smaller_is_better_ = false;
  bool target_below_ = false;  // <=, else >=
  double target_ = 0;
  int64_t patience_;  // evaluations; 0: no limit

  double best_ = std::numeric_limits<double>::quiet_NaN();
  int64_t best_round_ = -1;
  int64_t seen_ = -1;       // last evaluation
  int64_t since_best_ = 0;  // evaluations
  int64_t target_round_ = -1;
  bool has_warned_ = false;
};

}  // namespace hanse
