// One rank's part of a run: rounds, evaluations, checkpoints and results, whatever the protocol.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/store/run_directory.hpp"

namespace hanse {

// Where a resumed run continues.
struct ResumePoint {
  std::string folder;  // of the run so far
  std::string file;    // checkpoint
  int64_t round = 0;
};

// What the ranks do after a round; rank 0 decides.
enum class Verdict : int64_t { kGoOn, kStop, kFail };

// All methods are collective.
class Execution {
 public:
  Execution(KeyedJob& job, Communicator& comm, double start_s, std::optional<ResumePoint> resume)
      : job_(job),
        comm_(comm),
        start_s_(start_s),
        resume_(std::move(resume)),
        parts_(assemble(job, comm)) {}

  ExitStatus run();

 private:
  bool is_server() const { return comm_.rank() == 0; }
  int64_t completed() const { return parts_->protocol().completed_rounds(); }
  Protocol& protocol() { return parts_->protocol(); }

  void open();
  void greet() const;
  std::size_t held_out_evaluations() const;
  Verdict decide(const RoundRecord& record) const;
  void after_round(RoundRecord& record, Verdict verdict, Progress& progress);
  void evaluate();
  void checkpoint(bool required);
  void load_checkpoint();
  void check_model_file(const State& state) const;
  void finish();
  bool due(int64_t every) const {
    return completed() == job_.run.rounds || (every > 0 && completed() % every == 0);
  }

  KeyedJob& job_;
  Communicator& comm_;
  double start_s_;
  double setup_s_ = 0;
  std::optional<ResumePoint> resume_;
  std::unique_ptr<Assembly> parts_;
  std::unique_ptr<RunDirectory> directory_;  // rank 0
  std::unique_ptr<RoundWriter> writer_;      // rank 0; null: the protocol has none
  std::vector<ClientEvaluation> clients_;    // rank 0: the last evaluation
  std::vector<double> train_losses_;         // rank 0: of the last evaluation
  Metrics metrics_;                          // rank 0: of the last evaluation
  int64_t evaluated_round_ = -1;             // of metrics_
  double flushed_s_ = 0;
};

}  // namespace hanse
