#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/experts.hpp"
#include "json.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostNodes = 10000;

// p [N, N] as N rows.
Json rows_of(std::span<const double> weights, std::size_t n) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < weights.size(); i += n) {
    rows.push_back(std::vector<double>(weights.begin() + static_cast<std::ptrdiff_t>(i),
                                       weights.begin() + static_cast<std::ptrdiff_t>(i + n)));
  }
  return rows;
}

// losses [N, N] of a round, each in [0, 1] after online.loss-scale.
std::vector<double> peer_losses(const Json& round, std::size_t n, double scale,
                                const std::string& where) {
  const Json& rows = field(round, "losses", where);
  const std::string here = where + ".losses";
  if (!rows.is_array() || rows.size() != n) {
    throw InvalidArgument(fmt::format("expected an array of {} rows", n), here);
  }
  std::vector<double> losses;
  for (const Json& row : rows) {
    for (const double loss : numbers({{"losses", row}}, "losses", n, -INFINITY, where)) {
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

Json replay_online(const Json& trace, const Job& job) {
  const int64_t nodes = integer(field(trace, "nodes", "trace"), 1, kMostNodes + 1, "nodes");
  const auto n = static_cast<std::size_t>(nodes);
  const Json& rounds = rounds_of(trace);
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(rounds.size()));
  const auto rule =
      make_experts(job.online, nodes, job.online.horizon > 0 ? job.online.horizon : count);
  std::vector<double> weights(n * n);
  Json result = {{"rounds", Json::array()}};
  for (const Json& round : rounds) {
    const auto where = fmt::format("rounds[{}]", result["rounds"].size());
    if (!round.is_object()) throw InvalidArgument("expected an object", where);
    auto peers = participants(round, nodes, where);
    std::sort(peers.begin(), peers.end());
    rule->observe(peer_losses(round, n, job.online.loss_scale, where));
    rule->weigh(peers, weights);
    result["rounds"].push_back({{"weights", rows_of(weights, n)}});
  }
  return result;
}

}  // namespace hanse
