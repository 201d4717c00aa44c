// One bandit on the ranks: both phases, the regression oracle of Fed-GO-UCB's first, and what must
// be kept of it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/bandit_setup.hpp"
#include "hanse/rules/bandit/network.hpp"
#include "hanse/rules/bandit/policy.hpp"

namespace hanse {

// What one client saw in the first phase.
struct Exploration {
  std::vector<double> points;   // [pulls, inputs]
  std::vector<double> rewards;  // [pulls]
};

struct NetworkFit {
  std::vector<double> w;  // w0
  double loss = 0;        // mean squared error before the last step; 0 without steps
};

// The random numbers of a fit: those of `client`, counted from 1, or of all together.
struct OracleStream {
  uint64_t seed = 0;
  int64_t client = 0;
};

// w0, on every rank: gradient Langevin descent (Algorithm 2) on the mean squared error over all
// ranks' clients, `pulls` of them in all, from N(0, spread^2). `clients` are this rank's.
// Each client's gradient and loss are rounded once to multiples of 2^-36 and summed as integers by
// all-reduce: w0 has the same bits on any number of ranks. Noise and start are drawn on every rank
// from one stream. Collective; throws InvalidArgument on all ranks when a gradient leaves 2^26 /
// pulls. Cost a step: `pulls` gradients, and one all-reduce of d_w + 2 integers.
NetworkFit fit_network(const RewardNetwork& network, std::span<const Exploration> clients,
                       int64_t pulls, const OracleOptions& options, const OracleStream& stream,
                       Communicator& comm);

// Sums so far; rank 0 has the whole ones.
struct BanditNumbers {
  double explore_regret = 0;  // of the first phase
  double regret = 0;          // of the second
  double round_regret = 0;    // of the last round
  double fit_loss = 0;        // mean squared error of the network in the first phase
  double scalars = 0;         // sent by synchronizations, as papers count
  int64_t syncs = 0;
  int64_t replayed = 0;  // speculative turns discarded, by all ranks
  int64_t bytes = 0;     // payload of the second phase
  // Regrets of each client's second phase, [N] on rank 0.
  std::vector<double> regret_of;
  std::vector<int64_t> best_of;   // pulls of the best arm
  std::vector<int64_t> pulls_of;  // [arms] of all clients' second phase, on rank 0
};

// All clients' pulls since the last synchronization, one client after another.
struct OwnPulls {
  std::vector<int64_t> counts;  // [N] of each client
  Pulls pulls;
  std::vector<int64_t> history;  // [N, rounds] arms since the start, where dictionaries are drawn
};

// First client of a rank: rank r has those c with floor(c ranks / N) = r.
int64_t first_client(int64_t rank, int64_t ranks, int64_t clients);

class BanditRun : public Stateful {
 public:
  BanditRun(BanditSetup setup, Communicator& comm);

  // The first phase: T0 uniform pulls, step t by client (t-1) mod N, and the regression oracle.
  // Collective; throws the same on all ranks.
  void explore();
  // Collective. A failure of this rank waits in failure().
  void play_round();
  std::exception_ptr failure() const { return failure_; }

  const BanditSetup& setup() const { return setup_; }
  const BanditNumbers& numbers() const { return numbers_; }
  int64_t dimension() const { return dimension_of(setup_); }  // d
  int64_t row_width() const { return row_width_of(setup_); }
  // The scalars of the first phase as the paper counts: 2 n N d_w.
  double explore_scalars() const;

  // x-hat, the arm that the run returns: uniform over the pulls of the second phase. Rank 0;
  // REQUIRES a round.
  int64_t returned_arm() const;

  // Brings all clients' pulls since the last synchronization to rank 0.
  void collect();
  // The model: the centre w0 + Sigma^{-1} v of what all clients know together, or of each client's
  // own; for kernels the mean reward of each arm. Rank 0, after collect().
  std::vector<double> model() const;

 private:
  bool is_server() const { return comm_.rank() == 0; }
  bool is_mine(int64_t client) const { return client >= begin_ && client < end_; }
  BanditClient& client(int64_t c) { return *clients_[static_cast<std::size_t>(c - begin_)]; }

  std::vector<Exploration> pull_uniformly();
  void fit_networks(const std::vector<Exploration>& seen);
  void start_policy();
  void start_clients();
  void restore_clients();
  int64_t propose_turns(int64_t from);
  void commit_turns(int64_t from, int64_t to);
  void synchronize();
  void draw_dictionary();
  void count_round();
  double regret(int64_t arm) const;
  void visit(StateFields& fields) override;  // every rank loads what rank 0 has collected

  BanditSetup setup_;
  Communicator& comm_;
  int64_t begin_;  // this rank's clients
  int64_t end_;
  double best_value_;       // of the arms
  std::vector<double> w0_;  // [networks, d_w]
  std::unique_ptr<BanditPolicy> policy_;
  std::vector<double> total_;        // [row_width()] statistics of all synchronizations
  std::vector<int64_t> dictionary_;  // members() of the last synchronization, empty before it
  std::vector<std::unique_ptr<BanditClient>> clients_;
  std::vector<std::vector<int64_t>> history_;  // arms of this rank's clients since the start
  std::vector<Turn> turns_;                    // of this rank's clients
  int64_t proposed_until_ = 0;                 // clients from here on have no turn yet
  int64_t round_ = 0;
  int64_t discarded_here_ = 0;  // of numbers_.replayed
  BanditNumbers numbers_;
  OwnPulls own_;  // rank 0, after collect()
  std::exception_ptr failure_;
};

}  // namespace hanse
