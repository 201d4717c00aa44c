// Rounds of federated training: the server draws, clients train, one reduction brings the weighted
// sum, the server steps.
//
// All ranks build one FederatedTrainer and call its methods together. Rank 0 holds the decisions
// and the model; it sees losses, norms and the sum, never a participant's vector (with two or more
// participants). The result does not depend on the number of ranks or on who trains whom.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/state.hpp"
#include "hanse/client/cohort_training.hpp"
#include "hanse/client/evaluator.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/comm/work_queue.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/protocol/direction_report.hpp"
#include "hanse/protocol/participation.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/protocol/round_trace.hpp"
#include "hanse/protocol/schedule.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/sampling/availability.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "hanse/sums/device_sum.hpp"
#include "hanse/sums/device_updates.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

struct CommOptions {
  std::string reduction = "exact";  // exact | fast (float32; static schedule)
  std::string dispatch = "auto";    // auto | planned | shared
  double timeout_seconds = 1800;    // for a rank that does not come; 0: forever
};

class KeptUpdates;

// Does the model go back to the ranks part by part while its sum still comes? Not where the step
// may be taken back, nor where the server's optimizer needs all of it at once.
bool step_overlaps(const AggregatorNeeds& needs, const LocalUpdate& update);

class FederatedTrainer final : public Protocol {
 public:
  struct Parts {
    Communicator& comm;
    Communicator& host;  // comm.split_by_host()
    const Federation& federation;
    Model& model;
    LocalUpdate& update;
    ClientSampler* sampler;  // rank 0; null elsewhere
    Aggregator& aggregator;
    ServerOptimizer* optimizer;             // rank 0; null elsewhere
    Availability* availability = nullptr;   // rank 0; null: everyone is always there
    CohortTraining* cohorts = nullptr;      // trains instead of `update`; null: `update` does
    DeviceCommunicator* devices = nullptr;  // with `cohorts`
  };
  struct Settings {
    uint64_t seed = 1;
    int64_t max_participants = 1;  // of a round
    ClientOptions client;
    ServerOptions server;
    CommOptions comm;
    double round_seconds = 0;        // after which no participant starts; 0: no limit
    int64_t loss_batches = 0;        // samples of F_i: so many mini-batches; 0: all
    bool equal_importance = false;   // the sampler's lambda_m: 1/M; else by samples
    bool regret = false;             // measure the sampler's regret: all clients train every round
    bool trace = false;              // keep what the rules were told
    bool own_models = false;         // evaluate every client's own model, not the shared one
    std::string state_folder = ".";  // of the client states' mapped file
    double (*clock)() = monotonic_seconds;  // of all that a round times; tests bring their own
  };

  FederatedTrainer(Parts parts, Settings settings);
  ~FederatedTrainer() override;

  void initialize_model() override;
  RoundRecord round(bool stop_requested) override;
  std::exception_ptr failure() const override { return failure_; }
  int64_t completed_rounds() const override { return completed_; }
  std::vector<std::string> round_columns() const override;

  std::vector<ClientEvaluation> evaluate() override;
  Metrics metrics() const override;
  std::vector<double> decision() const override;
  std::vector<TableLines> take_lines() override;

  // Brings rank 0's model to all ranks, before an evaluation. Collective.
  void share_model();
  std::span<const float> model_row() const override { return theta_; }
  ParameterLayout model_layout() const override { return parts_.model.layout(); }

  // What is known of the last round's draw. Rank 0.
  const Participation& participation() const { return *participation_; }
  // Of the last round, when settings.trace. Rank 0.
  const RoundTrace& trace() const { return trace_; }

  void save(State& state) const override;
  void load(const State& state) override;
  ClientStateStore* client_states() override { return states_.get(); }
  bool keeps_state_of(int64_t client) const override;

 private:
  // One participation as all ranks know it. Trivially copyable: it travels as bytes.
  struct Assignment {
    int64_t client;
    int64_t position;    // in the draw
    int64_t worker;      // that trains it, when the schedule is planned
    double coefficient;  // of its update in the sum
    double importance;   // lambda_i, of its control variate's change
  };
  // What the ranks report after a round: an entry a participant, in the plan's order. Entries of
  // other ranks' participants are -inf, so that a maximum merges the ranks' tables.
  struct Findings;
  // How the server moves along the sum of a round.
  struct ServerStep {
    bool is_due = false;      // false: somebody failed, or nobody was there
    double scale = 1;         // of the sum, by the rule
    double rate = 1;          // of the optimizer
    double coefficients = 1;  // their sum
  };
  // What moving the model and the sums took in a round, on rank 0.
  struct Traffic {
    ExchangeTimes times;
    int64_t broadcast_bytes = 0;
    int64_t reduce_bytes = 0;
    int64_t before_bytes = 0;  // bytes_moved() at the round's start, of any rank
    int64_t others_bytes = 0;  // what the other ranks count of the round

    void add(const ExchangeTimes& more) {
      times.reduce_s += more.reduce_s;
      times.step_s += more.step_s;
      times.broadcast_s += more.broadcast_s;
    }
  };

  void find_homes();
  void decide_participants();
  void move_states();
  void move_state(int64_t client, int64_t from, int64_t to);
  std::span<const float> state_or_zeros(int64_t client);
  int64_t home_of(int64_t client) const;
  double move_seconds() const;
  void draw_participants();
  RoundReport report() const;
  void mix();
  bool share_plan(bool foresees);
  void foresee();
  double squared_step(int64_t client);
  double feedback(int64_t client, double importance, double squared_norm) const;
  ClientTask task_of(int64_t client, std::span<float> state);
  std::vector<float> state_copy(int64_t client) const;
  void make_own_model(int64_t client);
  std::vector<ClientEvaluation> evaluate_own_models();
  std::span<const float> received_model(int64_t client);
  void gather_losses();
  void check_losses() const;
  std::vector<double> participants_losses();
  void merge(std::vector<double>& table);
  double training_loss(int64_t client);
  void train_participants(Findings& findings);
  void train_one(std::size_t entry, Findings& findings);
  void train_cohorts(Findings& findings);
  void train_cohort(std::size_t begin, std::size_t end, Findings& findings);
  void note_training(std::size_t entry, const ClientOutcome& outcome, const FoldResult& folded,
                     double seconds, Findings& findings);
  void order_at_random();
  void forget_training();
  FoldResult fold_update(const Assignment& mine);
  FoldResult keep_update(const Assignment& mine);
  void mix_kept(const Findings& findings);
  std::vector<double> weigh_kept(const std::vector<double>& rates, std::span<const double> gram);
  void fold_kept(std::span<const double> coefficients);
  void backtrack(std::span<const float> before, bool failed);
  void describe_draw();
  void bcast_model();
  void reduce_sum();
  void reduce_controls();
  int64_t bytes_moved() const;
  double combine(const Findings& findings, RoundRecord& record);
  ServerStep prepare_step(const Findings& findings, RoundRecord& record);
  void move_controls();
  void step_part(const ServerStep& how, int64_t begin, int64_t end);
  static void average_buffers(std::span<float> buffers, std::span<const float> update,
                              double coefficients);
  int64_t n_trainable() const;
  std::span<float> parameters_of(std::span<float> row) const;  // without the buffers
  std::vector<double> round_values() const;
  template <class Work>
  void for_my_participants(Work work);
  void attempt(const std::function<void()>& work);
  bool is_server() const { return parts_.comm.rank() == 0; }
  bool keeps_updates() const { return kept_ || device_updates_; }

  Parts parts_;
  Settings settings_;
  int64_t workers_ = 1;           // ranks that host clients
  int64_t my_worker_ = 0;         // -1: this rank hosts none
  bool overlaps_ = true;          // the model goes back part by part as its sum comes
  bool model_is_shared_ = false;  // all ranks have rank 0's
  int64_t completed_ = 0;
  AlignedFloats theta_;      // [P] the model
  AlignedFloats row_;        // [P] of the client in training; equals theta_ between clients
  std::vector<float> step_;  // [P] the mixed update, rank 0
  UpdateSum sum_;
  std::unique_ptr<DeviceSum> device_sum_;  // of cohorts; null: there are none
  std::vector<float> control_;         // [control width] the server's variate; empty: none returns
  std::vector<float> control_change_;  // [control width] of the client in training; else zeros
  UpdateSum control_sum_;              // of lambda_i control_change_i
  std::unique_ptr<WorkQueue> queue_;   // null: the schedule is planned
  std::unique_ptr<ClientStateStore> states_;
  std::unordered_map<int64_t, int64_t> homes_;  // client that has a state: the worker it lies with
  bool homes_are_known_ = false;
  std::unique_ptr<KeptUpdates> kept_;              // null: updates are folded as they are made
  std::unique_ptr<DeviceUpdates> device_updates_;  // instead, of cohorts
  RowEvaluator evaluator_;                         // unless cohorts do it
  std::vector<float> state_buffer_;                // of a state on its way that this rank lacks
  std::exception_ptr failure_;

  // Of the round in progress.
  std::vector<Assignment> plan_;  // costliest first
  Deadline deadline_{0};          // of this rank's participants
  double start_s_ = 0;
  Traffic traffic_;
  // Rank 0 only.
  std::unique_ptr<Participation> participation_;
  RoundTrace trace_;
  std::string sampling_lines_;  // of sampling.csv, not yet taken
  DirectionReport directions_;  // of rules that need the Gram matrix
  std::vector<double> losses_;  // F_i in the draw's order, when the aggregator needs them
  double mixed_loss_ = std::numeric_limits<double>::quiet_NaN();
  int64_t left_out_ = 0;
  double byte_s_ = std::numeric_limits<double>::infinity();  // of a byte between two ranks
  int64_t piece_ = 1;  // participants that a rank takes at once
  CostModel costs_;
};

}  // namespace hanse
