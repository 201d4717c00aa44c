#include "execution.hpp"

#include <functional>
#include <memory>

#include <fmt/format.h>

#include "assemble/protocols.hpp"
#include "assemble/simulation.hpp"
#include "assemble/warm_start.hpp"
#include "divergence_guard.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/base/stop_request.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/run_directory.hpp"
#include "results/facts.hpp"
#include "results/results.hpp"
#include "run_phases.hpp"
#include "timeline.hpp"
#include "virtual_dates.hpp"
#include "watch.hpp"

namespace hanse {

namespace {

constexpr const char* kRules = "aggregator.kind";  // read by the protocols that have rules
// What the ranks do after a round; rank 0 decides.
enum class Verdict : int64_t { kGoOn, kStop, kFail };

// One rank's part of a run: rounds, evaluations, checkpoints and results, whatever the protocol.
// All methods are collective.
class Execution {
 public:
  Execution(KeyedJob& job, Communicator& comm, double start_s, std::optional<ResumePoint> resume,
            std::string repeats)
      : job_(job),
        comm_(comm),
        phases_(comm),
        start_s_(start_s),
        resume_(std::move(resume)),
        repeats_(std::move(repeats)),
        parts_(assemble(job, comm)),
        guard_(parts_->protocol(), comm, stops_at_divergence(job)),
        time_(job.clock) {
    agree_on(comm, [&] {
      if (is_server() && !job.evaluate.metric.path.empty()) {
        last_.own_metric = make_own_metric(job.evaluate.metric.path);
      }
    });
    for (const auto& [key, file] : rule_files(job, reads(kRules)))
      parts_->files[key] = file->digest;
    settle_job(*parts_, job);
    if (!is_simulated(job_)) last_.set_samples(parts_->federation, asked_of(job).on);
  }

  RunEnd run() {
    try {
      return run_to_end();
    } catch (...) {  // what rank 0 alone has met
      const auto failure = with_way_on(std::current_exception(), way_on_.hint());
      if (directory_) directory_->note_failure(failure);
      std::rethrow_exception(failure);
    }
  }

 private:
  RunEnd run_to_end() {
    agree_on(comm_, [&] {
      if (!is_server()) return;
      watch_.emplace(job_, reads("evaluate.best"), parts_->federation);
      protocol().columns().add_to_summary(
          [this] { return watch_->results(*directory_, time_.seconds()); });
    });
    open();
    tell_start(job_, parts_->greeting, resume_.has_value());
    Progress progress(stderr, completed(), is_server());
    setup_s_ = run_seconds() - start_s_;
    if (job_.run.timeline)
      timeline_.emplace(job_.run.out + "/timeline.json", job_.run.name, comm_, parts_->federation);
    const Scope phase(Phase::kRest);
    if (job_.evaluate.start && reads("evaluate.start") && !resume_) evaluate();
    phases_.hear_requests(job_.run.max_seconds > 0 ? start_s_ + job_.run.max_seconds : 0);
    share_end();
    guard_.keep();
    Verdict verdict = Verdict::kGoOn;
    while (completed() < job_.run.rounds && verdict == Verdict::kGoOn && end_.empty()) {
      phases_.enter("training", completed() + 1);
      RoundRecord record = protocol().round(stop_requested());
      if (!record.happens) {
        agree_on(comm_, [&] { time_.leave_out(record); });
        share_end();
        checkpoint(false);
        break;
      }
      verdict = decide(record);
      const auto failure = named_failure(protocol().failure(), parts_->federation);
      if (guard_.takes_back(verdict == Verdict::kFail, failure)) {
        share_end();
        if (last_.round != completed()) evaluate();  // a checkpoint keeps the lines before it
        checkpoint(false);
        break;
      }
      if (verdict == Verdict::kFail) {
        agree_that_left(comm_, failure);
        return {ExitStatus::kStopped, completed() - 1, "", way_on_.hint()};
      }
      after_round(record, verdict, progress);
    }
    const bool is_done = completed() == job_.run.rounds || !end_.empty();
    if (!end_.empty()) notice(fmt::format("ended after round {}: {}", completed(), end_));
    const std::string table = is_done ? finish() : "";
    if (timeline_) timeline_->close();
    return {is_done ? ExitStatus::kDone : ExitStatus::kStopped, completed(), table};
  }

  bool reads(const std::string& key) const { return protocol_kind(job_).reading.reads(key); }
  bool watches() const { return !job_.evaluate.best.empty() || !job_.run.target.empty(); }
  bool is_server() const { return comm_.rank() == 0; }
  int64_t completed() const { return parts_->protocol().completed_rounds(); }
  Protocol& protocol() { return parts_->protocol(); }
  // Does `work` on rank 0, where a user's rule may fail.
  void on_server(const std::function<void()>& work) {
    std::exception_ptr failure;
    try {
      if (is_server()) work();
    } catch (...) {
      failure = std::current_exception();
    }
    agree_running(comm_, with_way_on(failure, way_on_.hint()));
  }
  // Notes that the folder has a checkpoint of the round, or (-1) none yet.
  void note_checkpoint(const std::string& folder, int64_t round) {
    way_on_ = way_on_from(folder, round, repeats_);
    comm_.set_timeout(job_.comm.timeout_seconds, way_on_.text);
  }
  bool due(int64_t every) const {
    return completed() == job_.run.rounds || (every > 0 && completed() % every == 0);
  }
  // By rounds, or by virtual time.
  bool evaluates() const {
    return time_.evaluates_by_time() ? is_time_to_evaluate_ || due(0) : due(job_.evaluate.every);
  }

  void open() {
    if (resume_) {
      load_checkpoint();
    } else {
      protocol().initialize_model();
    }
    agree_on(comm_, [&] {
      if (!is_server()) return;
      require_finite_start(job_, protocol(), resume_ ? resume_->file : "");
      const std::string text = job_text(job_);
      const Metrics columns = protocol().columns().of_round(0);
      directory_ = std::make_unique<RunDirectory>(
          resume_ ? RunDirectory::reopen(job_.run.out, resume_->folder, resume_->round, text,
                                         columns, evaluated_)
                  : RunDirectory::create(job_.run.out, text, columns));
      write_start(*parts_, *directory_);
      if (job_.evaluate.history && reads("evaluate.history")) {
        last_.open_history(directory_->file(ClientHistory::kFile), resume_ ? evaluated_ : -1,
                           parts_->federation, asked_of(job_));
      }
      write_round_ =
          parts_->round_writer(job_, resume_ ? resume_->folder : job_.run.out, completed());
    });
    note_checkpoint(resume_ ? resume_->folder : job_.run.out, resume_ ? completed() : -1);
  }

  Verdict decide(const RoundRecord& record) {
    const bool asked = record.stop_requested || seconds_since_stop_request() >= 0;
    const auto verdict = record.failed ? Verdict::kFail : asked ? Verdict::kStop : Verdict::kGoOn;
    if (is_server() && !record.failed) time_.go_on_to(record.virtual_seconds);
    int64_t code[] = {static_cast<int64_t>(verdict), timeline_ && timeline_->is_due(),
                      time_.evaluates(), !end_text().empty()};
    comm_.bcast(std::span(code), 0);
    if (code[1]) timeline_->flush();
    is_time_to_evaluate_ = code[2] != 0;
    if (code[3]) share_end();
    return static_cast<Verdict>(code[0]);
  }

  void after_round(RoundRecord& record, Verdict verdict, Progress& progress) {
    const Scope phase(Phase::kOutput);
    if (write_round_) write_round_();
    if (evaluates()) {
      const Scope evaluation(Phase::kEvaluation, record.evaluate_s);
      evaluate();
    }
    if (is_server()) directory_->append_round(record);
    mine_.participants += record.participants;
    mine_.rounds_s += record.seconds;
    for (const auto& table : protocol().take_lines()) directory_->append_lines(table);
    const bool stops = verdict == Verdict::kStop && completed() < job_.run.rounds;
    if (stops || due(job_.checkpoint.every) || !end_.empty()) checkpoint(stops);
    if (!is_server()) return;
    const ProgressStatus status = last_.progress(completed(), told_rounds(job_), record.loss);
    directory_->flush_each_second();
    const bool ends = due(0) || verdict == Verdict::kStop || !end_.empty();
    ends ? progress.finish(status) : progress.update(status);
  }

  void evaluate() {
    if (is_simulated(job_) || !protocol().has_model()) return;  // nothing has been learnt
    phases_.enter("evaluation", completed());
    last_.clients = {};  // two tables at once would take twice the memory
    auto found = protocol().evaluate();
    last_.round = evaluated_ = completed();
    if (reads("attack.kind")) last_.find_attack_success(job_, *parts_, comm_);
    int64_t is_best = 0;
    on_server([&] {
      last_.take(std::move(found), job_, parts_->federation, protocol(), *directory_);
      is_best = watch_->observe(completed(), last_.metrics);
    });
    if (!watches()) return;
    share_end();
    comm_.bcast(std::span(&is_best, 1), 0);
    if (!is_best) return;
    protocol().collect();
    on_server([&] { write_best(job_, *parts_, *directory_); });
  }

  // Rank 0 tells whether the run ends here.
  void share_end() {
    end_ = end_text();
    bcast_list(comm_, end_);
  }
  std::string end_text() {
    if (!is_server()) return "";
    if (guard_.has_diverged()) return guard_.text();
    if (time_.is_over()) return time_.end();
    const std::string of_protocol = protocol().end();
    return of_protocol.empty() ? watch_->end() : of_protocol;
  }

  // Writes a checkpoint. One that fails leaves the older ones; the job says whether to go on, but
  // not behind a `required` one, on which a stopped run relies, or where older ones tell a secret.
  void checkpoint(bool required) {
    phases_.enter("checkpoint", completed());
    const Scope phase(Phase::kCheckpoint);
    protocol().collect();
    State state;
    on_server([&] {
      StateFields fields(state);
      fields.part("training", protocol());
      visit(fields);
      state.put_text("job", job_text(job_));
      state.put_part("files", part_facts(*parts_));
      state.put_part("data", data_facts(parts_->federation));
      directory_->sync();  // a checkpoint promises the lines before it
      if (last_.history) last_.history->sync();
    });
    const std::string folder = job_.run.out + "/checkpoints";
    const Readers readers = job_.privacy.is_on() ? Readers::kOwner : Readers::kAll;
    try {
      write_checkpoint(folder, completed(), state, protocol().client_states(), comm_, readers);
    } catch (const IoError& error) {
      if (required || job_.privacy.has_secret() || job_.checkpoint.on_error == OnError::kStop) {
        throw AgreedError(with_hint(error.what(), way_on_.hint()), ExitStatus::kFailed);
      }
      warning(
          fmt::format("no checkpoint of round {}: {}; the run goes on", completed(), error.what()));
      return;
    }
    note_checkpoint(job_.run.out, completed());
    if (is_server()) prune_checkpoints(folder, job_.checkpoint.keep, completed());
  }

  void load_checkpoint() {
    State state;
    agree_on(comm_, [&] {
      if (is_server()) {
        state = read_checkpoint_state(resume_->file);
        require_same_parts(*parts_, state);
        if (const State facts = state.part("data"); !facts.arrays().empty()) {
          require_same_data(parts_->federation, facts, job_.data.path);
        }
      }
      if (protocol().client_states()) {
        read_checkpoint_clients(
            resume_->file, [&](int64_t client) { return protocol().keeps_state_of(client); },
            *protocol().client_states());
      }
    });
    if (is_server()) {
      StateFields fields(std::as_const(state));
      visit(fields);
    }
    protocol().resume(state.part("training"));
  }

  // Rank 0: what a checkpoint has of the run beside its training.
  void visit(StateFields& fields) {
    fields.all("train_losses", last_.train_losses);
    if (fields.loads()) evaluated_ = resume_->round;  // as older versions have it
    if (fields.has("evaluated")) fields.one("evaluated", evaluated_);
    if (fields.has("watch/seen")) fields.part("watch", *watch_);
    if (fields.has("diverged/round")) fields.part("diverged", guard_);
    if (job_.clock.is_on()) fields.part("time", time_);
  }

  // The table for the terminal, on rank 0.
  std::string finish() {
    const Scope phase(Phase::kOutput);
    if (last_.round != completed()) {
      const Scope evaluation(Phase::kEvaluation);
      evaluate();
    }
    phases_.enter("results", completed());
    protocol().collect();
    const double peak = comm_.allreduce_one(peak_memory_bytes(), ReduceOp::kMax);
    if (parts_->model) mine_.flops = parts_->model->flops();
    Accounts accounts = gather_accounts(comm_, *parts_->host, mine_);
    std::string table;
    on_server([&] {
      if (const std::string remark = protocol().remark(); !remark.empty()) warning(remark);
      directory_->flush();
      if (!is_simulated(job_)) write_results(job_, *parts_, last_, *directory_);
      for (auto& number : protocol().columns().of_run()) last_.metrics.push_back(std::move(number));
      if (!is_simulated(job_))
        add_costs(job_, *parts_, *directory_, time_.seconds(), last_.metrics);
      const Summary summary{
          .name = job_.run.name,
          .seed = job_.run.seed,
          .rounds = completed(),
          .limits = {.diverged = guard_.found(),
                     .target = watch_->target(),
                     .virtual_seconds = time_.limit()},
          .ranks = comm_.size(),
          .trained_on = parts_->trained_on,
          .simulated = is_simulated(job_),
          .products = {.precision = name_of(job_.model.precision),
                       .kernels = product_kernels(job_.model, parts_->trains_on_gpu())},
          .digest = digest_of(*parts_),
          .data_digest = data_digest(parts_->federation),
          .times = {.set_up_s = setup_s_,
                    .rounds_s = directory_->seconds(),
                    .median_s = directory_->round_seconds_median()},
          .bytes_per_round = directory_->bytes_per_round(),
          .peak_memory_bytes = peak,
          .clients = last_.clients_on,
          .held_out = last_.held_out_on,
          .rules = rule_files(job_, reads(kRules)),
          .metrics = last_.metrics,
          .accounts = std::move(accounts),
          .returned = protocol().returned(),
          .privacy = privacy_report(job_.privacy, last_.metrics)};
      directory_->write_summary(summary_json(summary));
      table = parts_->table() + summary_table(summary, job_.run.out);
    });
    return table;
  }

  KeyedJob& job_;
  Communicator& comm_;
  RunPhases phases_;
  double start_s_;
  double setup_s_ = 0;
  RankAccount mine_;
  std::optional<ResumePoint> resume_;
  std::string repeats_;  // the folder of those that the run is one of; empty: it is alone
  WayOn way_on_;
  std::unique_ptr<Assembly> parts_;
  std::optional<Timeline> timeline_;
  std::unique_ptr<RunDirectory> directory_;  // rank 0
  std::function<void()> write_round_;        // rank 0; null: the protocol has nothing to write
  LastEvaluation last_;
  int64_t evaluated_ = -1;  // the last evaluation, for a checkpoint: behind an early end is none
  DivergenceGuard guard_;
  std::optional<Watch> watch_;        // rank 0
  VirtualDates time_;                 // rank 0
  bool is_time_to_evaluate_ = false;  // by virtual time
  std::string end_;                   // why the run ends before its last round; empty: it does not
};

}  // namespace

RunEnd execute(KeyedJob& job, Communicator& comm, double start_s,
               const std::optional<ResumePoint>& resume, const std::string& repeats) {
  agree_on(comm, [&] {
    if (comm.rank() == 0) digest_rule_files(job, protocol_kind(job).reading.reads(kRules));
  });
  std::optional<SimulatedRanks> simulated;
  if (is_simulated(job)) simulated.emplace(job, comm);
  return Execution(job, simulated ? simulated->comm() : comm, start_s, resume, repeats).run();
}

}  // namespace hanse
