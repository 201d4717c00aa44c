// How the ranks of a run work together: what the run layer drives, whatever the protocol.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// What one round did; complete on rank 0.
struct RoundRecord {
  int64_t round = 0;
  int64_t participants = 0;
  double seconds = 0;
  double train_s = 0;           // the most of any rank
  double comm_s = 0;            // moving data, the most of any rank
  double wait_s = 0;            // for other ranks to end their training, the most of any rank
  int64_t bytes_sent = 0;       // payload sent by all ranks
  double loss = 0;              // mean over participants of their mean mini-batch loss
  double mixed_loss = 0;        // weighted by the rule; NaN without a rule that weighs losses
  double evaluate_s = 0;        // evaluating the model behind the round; 0: not done
  bool stop_requested = false;  // on any rank
  bool failed = false;          // on any rank; the run cannot go on
  Metrics more;                 // columns().of_round()
};

// Whole lines for a CSV file of the run directory; the first field of each is the round.
struct TableLines {
  std::string file;    // "online.csv"
  std::string header;  // without the line's end
  std::string lines;
};

// An arm that a bandit returns at its end.
struct ReturnedArm {
  int64_t arm = 0;
  double value = 0;           // its mean reward
  std::vector<double> point;  // [inputs]
};

// All ranks build the same object and call its methods together; only the const ones are local.
class Protocol : public Stateful {
 public:
  virtual void initialize_model() = 0;
  // One round. `stop_requested` is this rank's flag. A failure of this rank's work does not throw:
  // it is reported, and failure() has it.
  virtual RoundRecord round(bool stop_requested) = 0;
  std::exception_ptr failure() const { return failure_; }
  int64_t completed_rounds() const { return completed_; }
  // What the run's tables have beside the numbers of every protocol; rank 0's count.
  Columns& columns() { return columns_; }

  // Every client's model on its own data, in client order on rank 0, empty elsewhere.
  virtual std::vector<ClientEvaluation> evaluate() = 0;
  // Of the last evaluation, on rank 0: what the protocol measures beside accuracies and losses, and
  // its weights over clients for decisions.csv, [M] or empty.
  virtual Metrics metrics() const { return {}; }
  virtual std::vector<double> decision() const { return {}; }
  // Of bandits, on rank 0, the arm of each repeat.
  virtual std::vector<ReturnedArm> returned() const { return {}; }
  // What rounds and evaluations since the last call have to say, on rank 0.
  virtual std::vector<TableLines> take_lines() { return {}; }

  // Of the last evaluation, the content of confusion.csv on rank 0; empty: it is not asked for.
  const std::string& confusion() const { return confusion_; }

  // Brings to rank 0 what model_row() and save(), which only rank 0 calls, need there.
  virtual void collect() {}
  // The model of the run, [model_layout().n_params()], on rank 0 after collect().
  virtual std::span<const float> model_row() const = 0;
  virtual ParameterLayout model_layout() const = 0;
  // The mean of the models behind all rounds, on rank 0 after collect(); empty: none is kept.
  virtual std::span<const float> averaged_row() const { return {}; }

  // Every rank goes on from `state`, which counts on rank 0. Collective; an IoError of load() is
  // the same on all ranks.
  virtual void resume(const State& state) = 0;
  // States of clients that lie on the ranks, or null; and is this rank the one that keeps them?
  virtual ClientStateStore* client_states() { return nullptr; }
  virtual bool keeps_state_of(int64_t /*client*/) const { return false; }

 protected:
  // Puts the lines of classes.csv among those that take_lines() gives.
  std::vector<TableLines> with_classes(std::vector<TableLines> tables) {
    if (class_lines_.empty()) return tables;
    tables.push_back({"classes.csv", kClassColumns, std::exchange(class_lines_, {})});
    return tables;
  }

  std::string class_lines_;  // rank 0: class_lines() of evaluations since the last take_lines()
  std::string confusion_;    // rank 0
  Columns columns_;
  int64_t completed_ = 0;  // rounds
  std::exception_ptr failure_;
};

// Calls protocol.load() with rank 0's state on every rank: for protocols whose ranks all keep what
// the checkpoint has. Collective. Throws AgreedError. Cost: the state's bytes on every rank.
void load_everywhere(Protocol& protocol, const State& state, Communicator& comm);

}  // namespace hanse
