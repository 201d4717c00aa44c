#include "federated.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/progress.hpp"
#include "round_model.hpp"

namespace hanse {

namespace {

void describe_job(const Job& job, const FederatedAssembly& parts, PlanSheet& sheet) {
  sheet.text("job", "job", job.run.name);
  sheet.count("parameters", "parameters", parts.model->layout().n_trainable());
  const std::string buffers = buffers_text(parts.model->layout());
  if (!buffers.empty()) sheet.line("buffers", buffers);
  sheet.line("clients, training samples",
             fmt::format("{}, {}", parts.federation.clients(), parts.federation.train_samples()));
  sheet.field("clients", parts.federation.clients());
  sheet.field("train_samples", parts.federation.train_samples());
}

void describe_memory(const Job& job, const FederatedAssembly& parts, const Cluster& cluster,
                     const Calibration& found, const RoundModel& model, const Footprint& footprint,
                     PlanSheet& sheet) {
  const auto data = number(parts.federation.bytes());
  const double rows = model.rows_bytes();
  const double work = found.work_bytes + found.state_bytes;
  const double states = std::min(model.states_bytes(), number(job.client.state_memory << 20));
  const double rank = footprint.start + rows + work + model.kept_bytes() + states;
  sheet.bytes("data_bytes", "data a host, shared", data);
  sheet.bytes("program_bytes", "program and libraries a rank", footprint.start);
  sheet.bytes("rows_bytes", "model rows a rank", rows);
  sheet.bytes("work_bytes", "batches, checkpoint a rank", work);
  if (model.kept_bytes() > 0) sheet.bytes("kept_bytes", "kept updates a rank", model.kept_bytes());
  if (states > 0) sheet.bytes("state_bytes", "client states a rank, at most", states);
  if (model.states_bytes() > states) {
    sheet.bytes("state_file_bytes", "and in a mapped file", model.states_bytes() - states);
  }
  sheet.bytes("rank_bytes", "memory a rank", rank);
  sheet.bytes("host_bytes", "memory a host, with data",
              number(cluster.ranks_a_host()) * rank + data);
  sheet.bytes("peak_bytes", "greatest of a rank, with data",
              std::max(footprint.load, rank + model.touched_share() * data));
}

void describe_round(const Job& job, const FederatedAssembly& parts, const Calibration& found,
                    const RoundModel& model, PlanSheet& sheet) {
  const int64_t clients = trained_clients(parts);
  double steps = 0;
  double work = 0;
  for (int64_t client = 0; client < clients; ++client) {
    steps += number(steps_of(parts, client));
    work += number(work_of(parts, client));
  }
  sheet.bytes("sent_bytes", "sent a round", model.sent_bytes());
  sheet.count("messages", "messages a round", std::llround(model.messages()));
  sheet.line("participants a round", fmt::format("{:g}", model.participants()));
  sheet.field("participants", model.participants());
  sheet.line("local steps a client, mean", fmt::format("{:.1f}", steps / number(clients)));
  sheet.field("steps", steps / number(clients));
  sheet.seconds("step_seconds", "a local step",
                found.client(work / number(clients)) / (steps / number(clients)));
  if (model.foresight_s() > 0) {
    sheet.seconds("foresight_seconds", "all clients before it", model.foresight_s());
  }
  if (model.losses_s() > 0)
    sheet.seconds("losses_seconds", "the losses before it", model.losses_s());
  sheet.seconds("train_seconds", "a round's training", model.training_s());
  if (model.gram_s() > 0) sheet.seconds("gram_seconds", "inner products", model.gram_s());
  sheet.seconds("down_seconds", "the model to the ranks", model.down_s());
  sheet.seconds("up_seconds", "the sum of the updates", model.up_s());
  sheet.seconds("server_seconds", "the server's step", found.server_s);
  sheet.seconds("exchange_seconds", "these three, overlapping", model.exchange_s());
  sheet.seconds("small_seconds", "short messages and waits", model.small_operations_s());
  sheet.seconds("round_seconds", "a round", model.round_s());
  sheet.seconds("evaluation_seconds", "an evaluation", model.evaluation_s());
  const int64_t every = job.evaluate.every;
  const int64_t evaluations = every > 0 ? (job.run.rounds + every - 1) / every : 1;
  const double run_s =
      number(job.run.rounds) * model.round_s() + number(evaluations) * model.evaluation_s();
  sheet.line("the run", fmt::format("{} ({} rounds, {} evaluations)", duration_text(run_s),
                                    job.run.rounds, evaluations));
  sheet.field("run_seconds", run_s);
}

}  // namespace

void plan_federated(const PlanOptions& options, const Job& job, FederatedAssembly& parts,
                    const Footprint& footprint, const Cluster& started, Cluster planned,
                    Communicator& comm, PlanSheet& sheet) {
  const Calibration found = calibrate(job, parts, started, planned, comm);
  if (comm.rank() != 0) return;
  const std::string source = set_links(options, found, started, planned);
  const RoundModel model(job, parts, planned, found);
  describe_job(job, parts, sheet);
  describe(planned, source, sheet);
  describe_memory(job, parts, planned, found, model, footprint, sheet);
  describe_round(job, parts, found, model, sheet);
}

}  // namespace hanse
