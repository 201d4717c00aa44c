#include "plan_online.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

// Seconds of a round's work over all ranks: the second one, for the first warms caches.
double round_work_s(const Job& job, Components& parts, Communicator& comm) {
  parts.online->initialize_model();
  RoundRecord record;
  for (int64_t t = 1; t <= std::min<int64_t>(2, job.online.horizon); ++t) {
    record = parts.online->round(false);
    agree(comm, parts.online->failure());
  }
  return record.train_s * comm.size();
}

}  // namespace

std::string plan_online(const Job& job, Components& parts, int64_t ranks, Communicator& comm) {
  const double work_s = round_work_s(job, parts, comm);
  const auto nodes = static_cast<double>(parts.federation.clients());
  const auto p = static_cast<double>(parts.model->n_params());
  const auto n = static_cast<double>(ranks);
  const double hosts = std::min(n, nodes);  // ranks that have a node
  const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const Exchange exchange = parts.experts->exchange();
  const double row_bytes = exchange == Exchange::kNone ? 0 : 4 * nodes * p;
  const double loss_bytes = exchange == Exchange::kAll ? 8 * nodes * (nodes + 2) : 0;
  const double round_s = work_s / hosts * std::max(1.0, hosts / cores);

  std::string text = plan_line("job", job.run.name);
  text += plan_line("parameters of a model", fmt::format("{:.0f}", p));
  text += plan_line("nodes, training samples",
                    fmt::format("{:.0f}, {}", nodes, parts.federation.train_samples()));
  text += plan_line("batches a stream", fmt::format("{}", job.online.horizon));
  text += plan_line("ranks, of which host nodes", fmt::format("{:.0f}, {:.0f}", n, hosts));
  text +=
      plan_line("data a host, shared", bytes_text(static_cast<double>(parts.federation.bytes())));
  text += plan_line("model rows a rank", bytes_text(2 * 4 * nodes * p));
  if (parts.fit->remembers()) {
    const auto columns = static_cast<double>(parts.federation.sample_values() + 1);
    text += plan_line("ridge regressions a rank",
                      bytes_text(8 * columns * columns * std::ceil(nodes / n)));
  }
  text += plan_line("sent a round",
                    bytes_text((n - 1) * (row_bytes + loss_bytes + 24 * nodes / n + 48)));
  text += plan_line("messages a round", fmt::format("{:.0f}", 6 * (n - 1)));
  text += plan_line("a round's work, estimated", fmt::format("{:.4g} ms", 1e3 * round_s));
  text += plan_line("the run's work, estimated",
                    duration_text(round_s * static_cast<double>(job.run.rounds)));
  return text;
}

}  // namespace hanse
