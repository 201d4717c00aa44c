// How often clients of asynchronous rounds could have been drawn: fast ones have no task, and can
// be drawn, more often than slow ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/state.hpp"

namespace hanse {

// A dispatch that draws n of a clients that are there gives each of these n/a of a draw; all M
// clients, were they there, would have n/M. Its factors make up for the difference. Let a draw's
// weights w_i have the mean 1 for each client that is there, and let update i count
// w_i (n/a) factor(i), with the sums up to the dispatch of factor(i). Its mean, given all that was
// before, is then E g_i / G_i, where g_i = n/a or 0 is what the dispatch adds to G_i, and E is the
// sum of n/M. Where G_i/E tends to a limit, the mean over dispatches tends to that of n/M: in the
// long run each client counts as if all were always there, whatever the sampler, the times of the
// tasks, and the hours on line.
// Its state is the sums. Memory: 24 bytes a client.
class DrawChances final : public Stateful {
 public:
  explicit DrawChances(int64_t clients);

  // These clients came or went: all are there at first, and after a load. Each stands once. Cost:
  // O(1) a client, O(M) after a load.
  void toggle(std::span<const int64_t> clients);
  // A dispatch draws n of so many that are there.
  void draw(int64_t n, int64_t there);
  // E/G_i behind the last draw, 1 exactly where all were always there. REQUIRES: the client was
  // there in a draw.
  double factor(int64_t client) const;

 private:
  void visit(StateFields& fields) override;
  void flip(std::size_t client);

  bool resumes_ = false;        // the next toggle() names those who are away
  double all_ = 0;              // E, the sum of n/M
  double drawn_ = 0;            // the sum of n/a
  std::vector<int64_t> there_;  // [M] is it there?
  std::vector<double> before_;  // [M] of G_i, from times before it came last ...
  std::vector<double> came_;    // [M] ... when `drawn_` was this
};

}  // namespace hanse
