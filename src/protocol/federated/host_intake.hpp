// What stands between a client's training and the host's sum, wherever the client has trained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "federated/host_sink.hpp"
#include "federated/round_context.hpp"

namespace hanse {

class Findings;

// A trained row passes the stages, the second row is weighed and buffers are checked; then the sink
// has it, and what is known of it is noted. Memory: the sink's.
class HostIntake {
 public:
  // Collective over parts.comm.
  HostIntake(const RunnerParts& parts, const FederatedSettings& settings);

  HostSink& sink() { return *sink_; }

  // Begins a run of clients; both must stay until finish().
  void start(const RoundContext& round, Findings& findings);
  // The next clients start from `model`, which must stay likewise.
  void go_on_from(std::span<const float> model) { sink_->go_on_from(model, note_); }
  // [control width] the change of the control variate of the client in training.
  std::span<float> control_change() { return sink_->second_row().row().first(controls_); }
  // Takes what sink().row() and control_change() hold of a client. `round`: as RoundContext::of()
  // that entry; `state`: all that is kept of the client; `seconds`: of its training before
  // `start_s`.
  void take(const RoundContext& round, std::size_t entry, const ClientOutcome& outcome,
            double seconds, double start_s, std::span<float> state);
  // Adds what waits.
  void finish() { sink_->finish(note_); }

  // Between runs a client may train that counts nothing: its row is `model` then.
  HostSink& start_apart(std::span<const float> model);
  // |theta_i - theta|^2, without buffers, of what it has left in the row. Throws as
  // checked_squared_step().
  double squared_step(const RoundContext& round, int64_t client, const ClientOutcome& outcome,
                      std::span<float> state);

 private:
  bool transform(const RoundContext& round, int64_t client, std::span<float> state);
  void check_buffers(const RoundContext& round, std::size_t entry, bool is_update);

  RunnerParts parts_;
  FederatedSettings settings_;
  SentRow sent_;  // the parts of a row
  // Values of a client's state: the update's own, the stages', the sink's; of its second row.
  std::size_t own_, staged_, kept_, controls_;
  SharedRows rows_;
  std::unique_ptr<HostSink> sink_;
  TakenNote note_;  // of the run
};

}  // namespace hanse
