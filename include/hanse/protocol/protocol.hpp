// How the ranks of a run work together: the interface of all protocols to the run layer.
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
  double train_s = 0;           // on the slowest rank
  double comm_s = 0;            // moving data, on the slowest rank
  double wait_s = 0;            // for other ranks to end their training, at most
  int64_t bytes_sent = 0;       // payload sent by all ranks
  double loss = 0;              // mean over participants of their mean mini-batch loss
  double mixed_loss = 0;        // weighted by the rule; NaN if no rule weighs losses
  double evaluate_s = 0;        // evaluating the model after the round; 0: not done
  double virtual_seconds = 0;   // at the round's end, where there is a clock
  bool happens = true;          // false: it would end too late, and the training is as it was
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

// A whole file of the run directory, written at the run's end.
struct ResultFile {
  std::string name;  // "statistics.json"
  std::string text;
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
  // One round. `stop_requested` is this rank's flag. If this rank's work fails, it does not throw:
  // the record says so, and failure() has the error. Behind a round that does not happen there is
  // no further one.
  virtual RoundRecord round(bool stop_requested) = 0;
  std::exception_ptr failure() const { return failure_; }
  // Goes on from resume() as if no round had failed.
  void forget_failure() { failure_ = nullptr; }
  int64_t completed_rounds() const { return completed_; }
  // On rank 0, why there may be no further round; empty: there may.
  virtual std::string end() const { return ""; }
  // On rank 0, what a user should know of the rounds at the run's end; empty: nothing.
  virtual std::string remark() const { return ""; }
  // Columns of the run's tables beside those of every protocol; rank 0's count.
  Columns& columns() { return columns_; }

  // Is a model trained? Without one nothing is evaluated and no model is written, and rank 0 has
  // results of another kind at the run's end: files, a table for the terminal, and their digest.
  virtual bool has_model() const { return true; }
  virtual std::vector<ResultFile> result_files() const { return {}; }
  virtual std::string table() const { return ""; }
  virtual std::string results_digest() const { return ""; }

  // Evaluates every client's model on its own data, in client order on rank 0; empty elsewhere.
  virtual EvaluationTable evaluate() = 0;
  // On rank 0, the last evaluation's metrics beside accuracies and losses, and the protocol's
  // weights over clients for decisions.csv, [M] or empty.
  virtual Metrics metrics() const { return {}; }
  virtual std::vector<double> decision() const { return {}; }
  // On rank 0, the arm of each repeat of a bandit.
  virtual std::vector<ReturnedArm> returned() const { return {}; }
  // Table lines of the rounds and evaluations since the last call, on rank 0.
  virtual std::vector<TableLines> take_lines() { return {}; }

  // On rank 0, the last evaluation's content of confusion.csv; empty: not asked for.
  const std::string& confusion() const { return confusion_; }

  // Brings the data to rank 0 that model_row() and save() need, which rank 0 alone calls.
  virtual void collect() {}
  // The model of the run, [model_layout().n_params()], on rank 0 after collect().
  virtual std::span<const float> model_row() const = 0;
  virtual ParameterLayout model_layout() const = 0;
  // The mean of the models behind all rounds, on rank 0 after collect(); empty: none is kept.
  virtual std::span<const float> averaged_row() const { return {}; }

  // Every rank goes on from `state`, which counts on rank 0. Collective; all ranks throw the same
  // IoError of load().
  virtual void resume(const State& state) = 0;
  // The store of clients' states on the ranks, or null; and is this the rank that keeps them?
  virtual ClientStateStore* client_states() { return nullptr; }
  virtual bool keeps_state_of(int64_t /*client*/) const { return false; }

 protected:
  // Adds the lines of classes.csv to the tables of take_lines().
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

// Calls protocol.load() with rank 0's state on every rank: for protocols whose ranks all keep the
// checkpoint's state. Collective. Throws AgreedError. Cost: the state's bytes on every rank.
void load_everywhere(Protocol& protocol, const State& state, Communicator& comm);

}  // namespace hanse
