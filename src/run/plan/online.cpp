#include "online.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

// Seconds of a round's work over all ranks: the second one, for the first warms caches.
double round_work_s(const Job& job, OnlineAssembly& parts, Communicator& comm) {
  parts.online->initialize_model();
  RoundRecord record;
  for (int64_t t = 1; t <= std::min<int64_t>(2, job.online.horizon); ++t) {
    record = parts.online->round(false);
    agree(comm, parts.online->failure());
  }
  return record.train_s * comm.size();
}

}  // namespace

void plan_online(const Job& job, OnlineAssembly& parts, const Cluster& planned, Communicator& comm,
                 PlanSheet& sheet) {
  const double work_s = round_work_s(job, parts, comm);
  const int64_t nodes = parts.federation.clients();
  const int64_t hosting = std::min(planned.ranks, nodes);  // ranks that have a node
  const RoundFootprint footprint = OnlineTrainer::footprint(
      {.nodes = nodes,
       .n_params = parts.model->n_params(),
       .exchange = parts.experts->exchange(),
       .ridge_columns = parts.fit->remembers() ? parts.federation.sample_values() + 1 : 0},
      planned.ranks);
  const std::vector<double> loads(static_cast<std::size_t>(hosting), work_s / number(hosting));
  const double round_s = busiest(planned, loads);

  sheet.text("job", "job", job.run.name);
  sheet.count("parameters", "parameters of a model", parts.model->n_params());
  sheet.line("nodes, training samples",
             fmt::format("{}, {}", nodes, parts.federation.train_samples()));
  sheet.field("nodes", nodes);
  sheet.field("train_samples", parts.federation.train_samples());
  sheet.count("batches", "batches a stream", job.online.horizon);
  sheet.line("ranks, of which host nodes", fmt::format("{}, {}", planned.ranks, hosting));
  sheet.field("ranks", planned.ranks);
  sheet.bytes("data_bytes", "data a host, shared", number(parts.federation.bytes()));
  sheet.bytes("rows_bytes", "model rows a rank", footprint.memory_bytes_of("model rows"));
  if (const double ridge = footprint.memory_bytes_of("ridge regressions"); ridge > 0) {
    sheet.bytes("ridge_bytes", "ridge regressions a rank", ridge);
  }
  sheet.bytes("sent_bytes", "sent a round", footprint.bytes_sent());
  sheet.count("messages", "messages a round", std::llround(footprint.messages()));
  sheet.seconds("train_seconds", "a round's work, estimated", round_s);
  sheet.line("the run's work, estimated", duration_text(round_s * number(job.run.rounds)));
}

}  // namespace hanse
