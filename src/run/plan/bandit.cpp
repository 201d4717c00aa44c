#include "bandit.hpp"

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
  sheet.count("synchronization_bytes", "sent by a synchronization, bytes",
              8 * bandit.row_width() * (n + ranks - 1));
  sheet.count("synchronization_scalars", "scalars of one, as papers count", 2 * n * (d * d + d));
}

}  // namespace hanse
