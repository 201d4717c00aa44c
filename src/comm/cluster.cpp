#include "hanse/comm/cluster.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/comm/tree_shape.hpp"

namespace hanse {

namespace {

struct Transfer {
  double wire_s = 0;  // seconds of the slowest part
  double fill_s = 0;  // until the first piece has come through
  double seconds() const { return wire_s + fill_s; }
};

int64_t pieces_of(double bytes) { return static_cast<int64_t>(std::ceil(bytes / kPieceBytes)); }

Transfer transfer(const Cluster& cluster, double bytes) {
  if (cluster.ranks == 1 || bytes <= 0) return {};
  const double piece = std::min(bytes, kPieceBytes);
  Transfer found{.wire_s = bytes / cluster.memory.rate};
  const auto add = [&](const TreeShape& tree, const Link& link) {
    if (tree.levels == 0) return;
    found.wire_s = std::max(found.wire_s, tree.copies * bytes / link.rate);
    found.fill_s += tree.levels * (link.latency_s + tree.copies * piece / link.rate);
  };
  add(tree_between_hosts(cluster.hosts, pieces_of(bytes)), cluster.network);
  add(tree_within_host(cluster.ranks_a_host()), cluster.memory);
  return found;
}

}  // namespace

double transfer_s(const Cluster& cluster, double bytes) {
  return transfer(cluster, bytes).seconds();
}

double link_bytes(const Cluster& cluster, double bytes) {
  return cluster.hosts == 1 ? 0
                            : tree_between_hosts(cluster.hosts, pieces_of(bytes)).copies * bytes;
}

double exchange_s(const Cluster& cluster, double up_bytes, double down_bytes, double step_s) {
  const Transfer up = transfer(cluster, up_bytes);
  const Transfer down = transfer(cluster, down_bytes);
  const double wire_s = cluster.hosts > 1 ? std::max({up.wire_s, down.wire_s, step_s})
                                          : up.wire_s + down.wire_s + step_s;
  return wire_s + up.fill_s + down.fill_s;
}

double small_s(const Cluster& cluster) { return collective_s(cluster, 0); }

double collective_s(const Cluster& cluster, double bytes) {
  const auto tree_s = [bytes](int64_t n, const Link& link) {
    const double levels = std::ceil(std::log2(static_cast<double>(n)));
    return levels * (link.latency_s + (bytes > 0 ? bytes / link.rate : 0));
  };
  return tree_s(cluster.hosts, cluster.network) + tree_s(cluster.ranks_a_host(), cluster.memory);
}

}  // namespace hanse
