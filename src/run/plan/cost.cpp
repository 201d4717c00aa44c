#include "cost.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/comm/tree_shape.hpp"

namespace hanse {

namespace {

struct Transfer {
  double wire_s = 0;  // of the slowest part
  double fill_s = 0;  // until the first piece has come through
  double seconds() const { return wire_s + fill_s; }
};

Transfer transfer(const Cluster& cluster, double bytes, double Link::*rate) {
  if (cluster.ranks == 1 || bytes <= 0) return {};
  const double piece = std::min(bytes, kPieceBytes);
  Transfer found;
  const auto add = [&](const TreeShape& tree, const Link& link) {
    if (tree.levels == 0) return;
    found.wire_s = std::max(found.wire_s, tree.copies * bytes / link.*rate);
    found.fill_s += tree.levels * (link.latency_s + tree.copies * piece / link.*rate);
  };
  const auto pieces = static_cast<int64_t>(std::ceil(bytes / piece));
  add(tree_between_hosts(cluster.hosts, pieces), cluster.network);
  add(tree_within_host(cluster.ranks_a_host()), cluster.memory);
  return found;
}

double levels_of(int64_t nodes) { return std::ceil(std::log2(static_cast<double>(nodes))); }

}  // namespace

double broadcast_s(const Cluster& cluster, double bytes) {
  return transfer(cluster, bytes, &Link::down).seconds();
}

double sum_s(const Cluster& cluster, double bytes) {
  return transfer(cluster, bytes, &Link::up).seconds();
}

double exchange_s(const Cluster& cluster, double up_bytes, double down_bytes, double step_s) {
  const Transfer up = transfer(cluster, up_bytes, &Link::up);
  const Transfer down = transfer(cluster, down_bytes, &Link::down);
  const double wire_s = cluster.hosts > 1 ? std::max({up.wire_s, down.wire_s, step_s})
                                          : up.wire_s + down.wire_s + step_s;
  return wire_s + up.fill_s + down.fill_s;
}

double small_s(const Cluster& cluster) {
  return levels_of(cluster.hosts) * cluster.network.latency_s +
         levels_of(cluster.ranks_a_host()) * cluster.memory.latency_s;
}

double busiest(const Cluster& cluster, std::span<const double> loads) {
  std::vector<double> work(static_cast<std::size_t>(cluster.hosts));
  double longest = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    work[static_cast<std::size_t>(cluster.host_of(static_cast<int64_t>(rank)))] += loads[rank];
    longest = std::max(longest, loads[rank]);
  }
  return std::max(longest, *std::max_element(work.begin(), work.end()) / cluster.slots());
}

std::vector<double> loads_of(const Cluster& cluster, std::span<const double> costs,
                             std::span<const int64_t> worker_of) {
  std::vector<double> loads(static_cast<std::size_t>(cluster.ranks));
  const int64_t first = cluster.dedicated ? 1 : 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    loads[static_cast<std::size_t>(first + worker_of[i])] += costs[i];
  }
  return loads;
}

}  // namespace hanse
