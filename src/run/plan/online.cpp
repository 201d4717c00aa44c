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
  const auto nodes = static_cast<double>(parts.federation.clients());
  const auto p = static_cast<double>(parts.model->n_params());
  const auto n = static_cast<double>(planned.ranks);
  const double hosting = std::min(n, nodes);  // ranks that have a node
  const Exchange exchange = parts.experts->exchange();
  const double row_bytes = exchange == Exchange::kNone ? 0 : 4 * nodes * p;
  const double loss_bytes = exchange == Exchange::kAll ? 8 * nodes * (nodes + 2) : 0;
  std::vector<double> loads(static_cast<std::size_t>(hosting), work_s / hosting);
  const double round_s = busiest_s(planned, loads);

  sheet.text("job", "job", job.run.name);
  sheet.count("parameters", "parameters of a model", parts.model->n_params());
  sheet.line("nodes, training samples",
             fmt::format("{:.0f}, {}", nodes, parts.federation.train_samples()));
  sheet.field("nodes", parts.federation.clients());
  sheet.field("train_samples", parts.federation.train_samples());
  sheet.count("batches", "batches a stream", job.online.horizon);
  sheet.line("ranks, of which host nodes", fmt::format("{:.0f}, {:.0f}", n, hosting));
  sheet.field("ranks", planned.ranks);
  sheet.bytes("data_bytes", "data a host, shared", static_cast<double>(parts.federation.bytes()));
  sheet.bytes("rows_bytes", "model rows a rank", 2 * 4 * nodes * p);
  if (parts.fit->remembers()) {
    const auto columns = static_cast<double>(parts.federation.sample_values() + 1);
    sheet.bytes("ridge_bytes", "ridge regressions a rank",
                8 * columns * columns * std::ceil(nodes / n));
  }
  sheet.bytes("sent_bytes", "sent a round",
              (n - 1) * (row_bytes + loss_bytes + 24 * nodes / n + 48));
  sheet.count("messages", "messages a round", 6 * (planned.ranks - 1));
  sheet.seconds("train_seconds", "a round's work, estimated", round_s);
  sheet.line("the run's work, estimated",
             duration_text(round_s * static_cast<double>(job.run.rounds)));
}

}  // namespace hanse
