#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/comm/cluster.hpp"

namespace hanse {
namespace {

using Hosts = std::vector<int>;

// Every rank's place, checked from both ends of each link, and the links' number between hosts.
struct Tree {
  Tree(int root, const Hosts& hosts, int64_t chunks) {
    for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
      places.push_back(place_in_tree(rank, root, hosts, chunks));
    }
    for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
      EXPECT_EQ(at(rank).parent < 0, rank == root);
      int across = 0;
      for (const int child : at(rank).children) {
        EXPECT_EQ(at(child).parent, rank);
        EXPECT_EQ(at(child).parent_elsewhere,
                  hosts[static_cast<std::size_t>(child)] != hosts[static_cast<std::size_t>(rank)]);
        if (at(child).parent_elsewhere) ++across;
      }
      between_hosts += across;
      most_to_hosts = std::max(most_to_hosts, across);
    }
  }

  const TreePlace& at(int rank) const { return places[static_cast<std::size_t>(rank)]; }

  // Links from the root.
  int depth(int rank) const {
    int links = 0;
    for (; at(rank).parent >= 0 && links <= static_cast<int>(places.size()); ++links) {
      rank = at(rank).parent;
    }
    return links;
  }
  int depth() const {
    int deepest = 0;
    for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
      deepest = std::max(deepest, depth(rank));
    }
    return deepest;
  }

  std::vector<TreePlace> places;
  int between_hosts = 0;
  int most_to_hosts = 0;
};

// Ranks over hosts in turn, as `mpirun --map-by node` places them, and host by host.
Hosts in_turn(int ranks, int hosts) {
  Hosts result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back(rank % hosts);
  return result;
}

TEST(Tree, EveryRankIsReachedAndAHostIsEnteredOnce) {
  for (int hosts = 1; hosts <= 5; ++hosts) {
    for (int ranks = hosts; ranks <= 13; ++ranks) {
      Hosts by_host = in_turn(ranks, hosts);
      for (const bool sorted : {false, true}) {
        if (sorted) std::sort(by_host.begin(), by_host.end());
        for (int root = 0; root < ranks; ++root) {
          for (const int64_t chunks : {1, 100}) {
            const Tree tree(root, by_host, chunks);
            for (int rank = 0; rank < ranks; ++rank) EXPECT_LE(tree.depth(rank), ranks);
            EXPECT_EQ(tree.between_hosts, hosts - 1);
            EXPECT_LE(tree.most_to_hosts, chunks >= hosts ? 1 : 2);
          }
        }
      }
    }
  }
}

TEST(Tree, HostsAreAChainForLongMessagesAndShallowForShortOnes) {
  EXPECT_EQ(Tree(0, in_turn(60, 60), 60).depth(), 59);
  EXPECT_EQ(Tree(0, in_turn(60, 60), 59).depth(), 5);
  EXPECT_EQ(Tree(3, in_turn(64, 1), 1000).depth(), 6);          // one host
  EXPECT_EQ(Tree(5, in_turn(4 * 31, 4), 1000).depth(), 3 + 4);  // four of 31 ranks
}

TEST(Tree, ByHand) {
  const Hosts hosts{0, 1, 0, 1, 0};
  const Tree tree(3, hosts, 100);
  EXPECT_EQ(tree.at(3).children, (std::vector<int>{0, 1}));  // the other host first
  EXPECT_EQ(tree.at(0).children, (std::vector<int>{2, 4}));
  EXPECT_TRUE(tree.at(1).children.empty());
  EXPECT_EQ(place_in_tree(0, 0, Hosts{7}, 1).parent, -1);
  EXPECT_TRUE(place_in_tree(0, 0, Hosts{7}, 1).children.empty());
}

}  // namespace
}  // namespace hanse
