// What federated bandits need.
#include <cmath>

#include "assemble/assemble.hpp"
#include "machines.hpp"

namespace hanse {

void BanditAssembly::plan(const PlanCase& plan, PlanSheet& sheet) {
  const int64_t ranks = plan.planned.ranks;
  const int64_t d = bandit->dimension();
  const double bytes =
      bandit->footprint(ranks, 1).bytes_sent() - bandit->footprint(ranks, 0).bytes_sent();
  sheet.add("parameters", "parameters", d);
  sheet.add("arms", "arms", bandit->arms());
  sheet.add("clients", "clients", bandit->clients());
  sheet.add("ranks", "ranks", ranks);
  sheet.add("repeats", "repeats", plan.job.run.repeats);
  sheet.add("statistics", "numbers of a client's statistics", bandit->row_width());
  sheet.add("synchronization_bytes", "sent by a synchronization, bytes",
            int64_t{std::llround(bytes)});
  if (!bandit->sends_matrices()) return;  // the others' depend on what clients have pulled
  sheet.add("synchronization_scalars", "scalars of one, as papers count",
            2 * bandit->clients() * (d * d + d));
}

}  // namespace hanse
