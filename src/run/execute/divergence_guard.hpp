// run.on-divergence: what becomes of a run whose training diverges.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/run/summary.hpp"

namespace hanse {

struct Job;

// Does a divergence end the job's run as a result?
bool stops_at_divergence(const Job& job);

// Keeps the training as it was before the round in progress, and goes back to it when the round
// diverges: all its errors are divergences (is_divergence), or its model is not finite. All methods
// but the const ones are collective. Its state, rank 0's, says that the run has diverged.
class DivergenceGuard final : public Stateful {
 public:
  // `stops`: a divergence ends the run; else it is an error, and nothing is kept.
  DivergenceGuard(Protocol& protocol, Communicator& comm, bool stops)
      : protocol_(protocol), comm_(comm), stops_(stops) {}

  // Before the first round. Memory: rank 0's part of a checkpoint, and the states of the clients
  // that take part in a round. Cost a round: a copy of these.
  void keep();
  // After a round, which has `failed` or not on some rank: returns whether it has diverged, and
  // then the training is what it was before. `failure`: this rank's, as the run tells of it.
  bool takes_back(bool failed, const std::exception_ptr& failure);

  bool has_diverged() const { return found_.round > 0; }
  const DivergedRound& found() const { return found_; }
  std::string text() const;

 private:
  void visit(StateFields& fields) override;
  std::string reason_of_failure(const std::exception_ptr& failure);
  std::string reason_of_model();

  Protocol& protocol_;
  Communicator& comm_;
  bool stops_;
  State before_;  // rank 0
  DivergedRound found_;
};

}  // namespace hanse
