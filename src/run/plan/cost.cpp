#include "cost.hpp"

#include <algorithm>
#include <cmath>

namespace hanse {

namespace {

// A tree of `nodes`: how often its links carry a message, and how many levels are below the root.
struct Tree {
  double copies = 0;
  double levels = 0;
};

Tree binary_tree(int64_t nodes) {
  return {static_cast<double>(std::min<int64_t>(2, nodes - 1)),
          std::floor(std::log2(static_cast<double>(nodes)))};
}

Tree tree_of_hosts(int64_t hosts, double pieces) {
  if (static_cast<double>(hosts) > pieces) return binary_tree(hosts);
  return {hosts > 1 ? 1.0 : 0.0, static_cast<double>(hosts - 1)};
}

struct Transfer {
  double wire_s = 0;  // of the slowest part
  double fill_s = 0;  // until the first piece has come through
  double seconds() const { return wire_s + fill_s; }
};

Transfer transfer(const Cluster& cluster, double bytes, double Link::*rate) {
  if (cluster.ranks == 1 || bytes <= 0) return {};
  const double piece = std::min(bytes, kPieceBytes);
  Transfer found;
  const auto add = [&](const Tree& tree, const Link& link) {
    if (tree.levels == 0) return;
    found.wire_s = std::max(found.wire_s, tree.copies * bytes / link.*rate);
    found.fill_s += tree.levels * (link.latency_s + tree.copies * piece / link.*rate);
  };
  add(tree_of_hosts(cluster.hosts, std::ceil(bytes / piece)), cluster.network);
  add(binary_tree(cluster.ranks_a_host()), cluster.memory);
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

double busiest_s(const Cluster& cluster, std::span<const double> loads) {
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

double Curve::operator()(double size) const {
  const auto above = std::lower_bound(points_.begin(), points_.end(), std::pair(size, 0.0));
  if (above == points_.begin() || above == points_.end()) {
    const auto& [at, cost] = above == points_.end() ? points_.back() : points_.front();
    return cost * size / at;
  }
  const auto& [x0, y0] = *(above - 1);
  const auto& [x1, y1] = *above;
  return y0 + (y1 - y0) * (size - x0) / (x1 - x0);
}

}  // namespace hanse
