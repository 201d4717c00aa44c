// Which tensors the steps of a client move, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hanse/client/options.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// Trained values that steps move together. The others get no gradient then, and their moments stay.
struct MovingPart {
  std::string name;            // "shared"
  std::vector<RowPart> parts;  // ascending and apart
  bool all = false;            // they are all that gradients train

  int64_t size() const;
  bool holds(int64_t place) const;
};

// Running means and variances of batch norm move with every batch, whatever its steps move.
struct Movement {
  struct Phase {
    MovingPart part;
    int64_t length = 1;  // as LocalPhases has it
  };
  std::vector<Phase> phases;  // empty: steps move everything
  // Each phase is a round of the run, in turn. Else a round has them all: the next one goes on from
  // the row and the mini-batch where the last one stopped.
  bool by_rounds = false;

  // What a round may change of a row: what its steps move, and all buffers.
  std::vector<RowPart> moved_in(int64_t round, const ParameterLayout& layout) const;
};

// By options.phases, alternate and moves. Throws InvalidArgument, with the tensors' names, when a
// pattern matches none that is trained, or a phase moves nothing.
Movement movement_of(const ClientOptions& options, const ParameterLayout& layout);

// Goes through the phases of a client's round.
class PhaseWalk {
 public:
  // `movement` must outlive it.
  PhaseWalk(const Movement& movement, int64_t round);

  // Takes the next mini-batch; does a phase begin with it? `unit`: steps_of_length() of the client.
  bool next(int64_t unit);
  // REQUIRES: next() was called, and there are phases.
  std::size_t number() const { return at_; }
  const MovingPart& part() const { return movement_->phases[at_].part; }
  // What that changes in the steps that the moments of the moving values have seen: those of
  // earlier phases count where they moved some of them.
  int64_t age_change() const { return age_change_; }

 private:
  const Movement* movement_;
  std::size_t at_;    // the phase ...
  int64_t made_ = 0;  // ... of which so many mini-batches were taken
  int64_t age_ = 0;   // mini-batches of earlier phases that moved some of its values
  int64_t age_change_ = 0;
  std::vector<int64_t> before_;  // mini-batches of the earlier phases
};

}  // namespace hanse
