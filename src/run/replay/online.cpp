#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/experts.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostNodes = 10000;

// losses [N, N] of a round, each in [0, 1] after online.loss-scale, or any for a rule that
// `takes_any`.
std::vector<double> peer_losses(const Json& round, std::size_t n, double scale, bool takes_any,
                                const std::string& where) {
  const Json& rows = field(round, "losses", where);
  const std::string here = where + ".losses";
  if (!rows.is_array() || rows.size() != n) {
    throw InvalidArgument(fmt::format("expected an array of {} rows", n), here);
  }
  std::vector<double> losses;
  for (const Json& row : rows) {
    for (const double loss : numbers(row, n, takes_any ? 0 : -INFINITY, here)) {
      if (takes_any) {
        losses.push_back(loss);
        continue;
      }
      try {
        losses.push_back(unit_loss(loss, scale));
      } catch (const InvalidArgument& error) {
        throw InvalidArgument(error.what(), here);
      }
    }
  }
  return losses;
}

}  // namespace

Json replay_online(const Json& trace, const Job& job, bool checks) {
  const int64_t nodes = integer(field(trace, "nodes", "trace"), 1, kMostNodes + 1, "nodes");
  const auto n = static_cast<std::size_t>(nodes);
  const auto count = std::max<int64_t>(1, std::ssize(rounds_of(trace)));
  const int64_t horizon = job.online.horizon > 0 ? job.online.horizon : count;
  auto rule = make_experts(job.online, nodes, horizon);
  std::vector<double> weights(n * n);
  return each_round(trace, [&](const Json& round, const std::string& where) -> Json {
    if (checks) {
      auto memory = std::move(rule->memory());
      rule = make_experts(job.online, nodes, horizon);
      rule->memory() = std::move(memory);
    }
    auto peers = clients_in(round, "participants", nodes, where);
    std::sort(peers.begin(), peers.end());
    const bool takes_any = rule->exchange() == Exchange::kGradients;
    rule->observe(peer_losses(round, n, job.online.loss_scale, takes_any, where));
    rule->weigh(peers, weights);
    return {{"weights", to_rows(weights, n)}};
  });
}

}  // namespace hanse
