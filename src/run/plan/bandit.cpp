#include "bandit.hpp"

#include <cmath>

namespace hanse {

void plan_bandit(const Job& job, const BanditProtocol& bandit, int64_t ranks, PlanSheet& sheet) {
  const int64_t d = bandit.dimension();
  const int64_t n = bandit.clients();
  sheet.text("job", "job", job.run.name);
  sheet.count("parameters", "parameters", d);
  sheet.count("arms", "arms", bandit.arms());
  sheet.count("clients", "clients", n);
  sheet.count("ranks", "ranks", ranks);
  sheet.count("repeats", "repeats", job.run.repeats);
  sheet.count("statistics", "numbers of a client's statistics", bandit.row_width());
  const auto sent_bytes = [&](double synchronizations) {
    return BanditProtocol::footprint({.clients = n,
                                      .row_width = bandit.row_width(),
                                      .synchronizations = synchronizations},
                                     ranks)
        .bytes_sent();
  };
  sheet.count("synchronization_bytes", "sent by a synchronization, bytes",
              std::llround(sent_bytes(1) - sent_bytes(0)));
  sheet.count("synchronization_scalars", "scalars of one, as papers count", 2 * n * (d * d + d));
}

}  // namespace hanse
