// How the clients of a federated bandit choose arms, what they share, and when they synchronize.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hanse {

// The largest bound. Bounds that differ by rounding alone (1e-12 of the largest size) count as
// equal, so that equal arms tie on every machine and in both forms of statistics; the lowest arm
// wins.
int64_t best_arm(std::span<const double> bounds);

struct Turn {
  int64_t arm = 0;
  bool triggers = false;  // all clients synchronize behind it
};

// Pulls of one client, in playing order.
struct Pulls {
  std::vector<int64_t> arms;
  std::vector<double> rewards;
};

// One client. The clients' shared knowledge stays shared until a client pulls an arm of its own.
class BanditClient {
 public:
  virtual ~BanditClient() = default;

  // The next turn; a trigger needs no reward. Changes nothing, so that a speculative turn that is
  // discarded costs nothing.
  virtual Turn next() const = 0;
  // Makes the turn, with the reward y. A turn that triggers teaches the client nothing: the
  // synchronization behind it replaces its knowledge.
  void play(const Turn& turn, double reward);

  // Its pulls since the last synchronization.
  const Pulls& own() const { return own_; }
  // Goes on from own() of a client with the same knowledge before its first pull.
  void replay(const Pulls& own);

 protected:
  virtual void learn(int64_t arm, double reward) = 0;

 private:
  Pulls own_;
};

// One bandit's rule: the same object on all ranks.
class BanditPolicy {
 public:
  virtual ~BanditPolicy() = default;

  // A client with the knowledge that all share. REQUIRES: this object outlives it.
  virtual std::unique_ptr<BanditClient> make_client(int64_t client) const = 0;

  // Statistics travel as rows of so many numbers; the sum of all clients' rows since the start is
  // their shared knowledge. add() adds a client's pulls since the last synchronization.
  virtual int64_t row_width() const = 0;
  virtual void add(const Pulls& pulls, int64_t client, std::span<double> row) const = 0;
  // For policies whose clients draw a dictionary of points before each synchronization. members():
  // the number of clients that took each arm's point [arms], for the caller to fill with the sums
  // of draw() before know(); empty: there is none to draw. draw() adds a client's part: each of
  // `pulls`, all its own since the start, consumes one number of `uniform`, in [0, 1).
  virtual std::span<int64_t> members() { return {}; }
  virtual void draw(std::span<const int64_t> /*pulls*/, const std::function<double()>& /*uniform*/,
                    std::span<int64_t> /*members*/) const {}
  // Distinct points that stand for all pulls since the last synchronization; -1: features do.
  virtual int64_t dictionary() const { return -1; }

  // Synchronizes: all clients learn the row `total`. Returns the scalars that it sent, as papers
  // count them. Throws InvalidArgument when the numbers give out.
  virtual double know(std::span<const double> total) = 0;

  // The estimate that the pulls of `row` give, for the model of the run. `client` counts where each
  // client has a model of its own.
  virtual std::vector<double> estimate(std::span<const double> row, int64_t client) const = 0;
};

}  // namespace hanse
