#include "tree.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace hanse {

namespace {

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

}  // namespace

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
  link(leaders, static_cast<int64_t>(leaders.size()) <= chunks ? 1 : 2, rank, place);
  link(ranks_of[hosts[static_cast<std::size_t>(rank)]], 2, rank, place);
  return place;
}

}  // namespace hanse
