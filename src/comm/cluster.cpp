#include "hanse/comm/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

namespace hanse {

namespace {

// Children of a rank in the tree of hosts: a chain, unless hosts outnumber a message's chunks.
int64_t arity_between_hosts(int64_t hosts, int64_t chunks) { return hosts <= chunks ? 1 : 2; }
constexpr int64_t kArityWithinHost = 2;

TreeShape shape_of(int64_t arity, int64_t nodes) {
  const auto n = static_cast<double>(nodes);
  return {.copies = static_cast<double>(std::min(arity, nodes - 1)),
          .levels = arity == 1 ? n - 1 : std::floor(std::log2(n))};
}

// Links `rank` to its neighbours in a complete tree over `ranks`, level by level.
void link(std::span<const int> ranks, int64_t arity, int rank, TreePlace& place) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) return;
  const int64_t at = found - ranks.begin();
  if (at > 0) place.parent = ranks[static_cast<std::size_t>((at - 1) / arity)];
  const auto end = std::min(arity * at + arity + 1, static_cast<int64_t>(ranks.size()));
  for (int64_t child = arity * at + 1; child < end; ++child) {
    place.children.push_back(ranks[static_cast<std::size_t>(child)]);
  }
}

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

TreeShape tree_between_hosts(int64_t hosts, int64_t chunks) {
  return shape_of(arity_between_hosts(hosts, chunks), hosts);
}

TreeShape tree_within_host(int64_t ranks) { return shape_of(kArityWithinHost, ranks); }

TreePlace place_in_tree(int rank, int root, std::span<const int> hosts, int64_t chunks) {
  std::map<int, std::vector<int>> ranks_of;  // host: its ranks, the one linked to others first
  std::vector<int> leaders{root};
  ranks_of[hosts[static_cast<std::size_t>(root)]] = leaders;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (other == root) continue;
    std::vector<int>& neighbours = ranks_of[hosts[static_cast<std::size_t>(other)]];
    if (neighbours.empty()) leaders.push_back(other);
    neighbours.push_back(other);
  }
  TreePlace place;
  const auto n_hosts = static_cast<int64_t>(leaders.size());
  link(leaders, arity_between_hosts(n_hosts, chunks), rank, place);
  place.parent_elsewhere = place.parent >= 0;
  link(ranks_of[hosts[static_cast<std::size_t>(rank)]], kArityWithinHost, rank, place);
  return place;
}

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
