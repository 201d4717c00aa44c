// Who takes part in a round, and which rank trains whom.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "federated/client_runner.hpp"
#include "federated/findings.hpp"
#include "federated/update_sink.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/balance.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/comm/work_queue.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/protocol/ahead_tasks.hpp"
#include "hanse/protocol/cost_model.hpp"
#include "hanse/protocol/federated_settings.hpp"
#include "hanse/protocol/schedule.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// One participation as all ranks know it. Trivially copyable: it travels as bytes.
struct Assignment {
  int64_t client;
  int64_t position;    // in the draw
  int64_t worker;      // that trains it, when the schedule is planned
  double coefficient;  // of its update in the sum
  double importance;   // lambda_i, of its second row
};

// Where the states of clients lie, and how they get to the ranks that train the clients.
class StateHomes {
 public:
  // `store` null: clients have no states. Worker w is rank comm.size() - workers + w; `mine` is
  // this rank's, -1 when it hosts nobody.
  StateHomes(Communicator& comm, ClientStateStore* store, int64_t workers, int64_t mine)
      : comm_(comm), store_(store), workers_(workers), mine_(mine) {}

  // Learns, before the first round, where keeps() has put the states of a checkpoint. Collective.
  void learn();
  // Is this rank the one that has, or would have, the client's state?
  bool keeps(int64_t client) const;
  // The worker that has the client's state; -1: it has none yet.
  int64_t of(int64_t client) const;
  bool empty() const { return store_ == nullptr; }
  // Bytes of a state on its way.
  int64_t bytes() const { return store_ ? 4 * store_->width() : 0; }

  // Moves the states of the plan's clients to its ranks, in the plan's order on all ranks, so that
  // no two wait for each other. `trains`: these will have states there from now on; else those that
  // have none get none. Collective.
  void move(std::span<const Assignment> plan, bool trains, std::exception_ptr& failure);

 private:
  void move_one(int64_t client, int64_t from, int64_t to, std::exception_ptr& failure);

  Communicator& comm_;
  ClientStateStore* store_;
  int64_t workers_;
  int64_t mine_;
  bool known_ = false;
  std::unordered_map<int64_t, int64_t> homes_;  // client that has a state: its worker
};

// What rank 0 says of a round before it, in 8 bytes, or 8 and 40 a participant.
enum class PlanMessage : int64_t {
  kNoRound = std::numeric_limits<int64_t>::min(),  // it would end too late
  kCandidates = -2,  // and less: less their number; who finds out whose loss follows
  kMeasureAll = -1,  // every rank first finds out what each of its clients would report
  kParticipants = 0  // and more: their number; the assignments follow
};

class RoundPlan {
 public:
  // Collective. `host`: comm.split(kByHost). `runner`'s states move with their clients.
  RoundPlan(Communicator& comm, Communicator& host, const Federation& federation,
            ClientRunner& runner, const FederatedSettings& settings);

  std::span<const Assignment> entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  int64_t client_at(int64_t position) const;  // of the draw
  int64_t worker() const { return worker_; }  // this rank's number; -1: it hosts no clients
  int64_t workers() const { return workers_; }
  StateHomes& homes() { return homes_; }
  const StateHomes& homes() const { return homes_; }

  // Rank 0. Enters the round's participants in the order of their planned start, or in the draw's
  // where ranks train groups of them; `importances` [K] are in the draw's order.
  void assign(const RoundTurnout& turnout, std::span<const double> importances, int64_t round);
  // What the entries work on, with settings.timed; empty: all on the newest model.
  std::span<const TaskOrigin> origins() const { return origins_; }
  // Tasks of later rounds that ranks train when they have done theirs.
  std::span<const UpcomingTask> ahead() const { return ahead_; }
  // Versions of the model that later rounds start from, with settings.timed.
  std::span<const int64_t> kept_versions() const { return kept_versions_; }
  // Rank 0: sets what each update counts, [K] in the draw's order.
  void weigh(std::span<const double> coefficients);
  void clear() {
    entries_.clear();
    origins_.clear();
    ahead_.clear();
  }
  // Sends rank 0's message, and with kParticipants or kCandidates its plan, to all ranks.
  // Collective.
  PlanMessage share(PlanMessage message);

  // The client that this rank trains after that entry; -1: none, or a queue will say.
  int64_t next_client(std::size_t entry) const;
  // Calls work(entry) for the entries of the plan that fall to this rank.
  template <class Work>
  void for_mine(Work work);

  // Rank 0: learns what training and moving took, for the next plans.
  void observe(const Findings& findings);
  void observe(const ExchangeReport& exchange);

 private:
  void order_at_random(int64_t round);
  void share_origins();
  void chain_tasks();
  void chain_groups();
  void plan_ahead(std::span<const double> costs, std::span<const UpcomingTask> upcoming);
  bool hosts_all_ranks() const { return host_.size() == comm_.size(); }
  bool server_hosts_clients() const;
  double samples_of(int64_t client, int64_t steps) const;  // on which it trains
  int64_t steps_of(std::size_t entry) const { return origins_.empty() ? 0 : origins_[entry].steps; }

  Communicator& comm_;
  Communicator& host_;
  const Federation& federation_;
  const FederatedSettings& settings_;
  ScheduleTraits traits_;
  LocalWork work_;   // of each client
  bool shared_;      // rank 0 hosts clients beside serving
  int64_t workers_;  // ranks that host clients
  int64_t worker_;
  StateHomes homes_;
  std::unique_ptr<WorkQueue> queue_;  // null: the schedule is planned
  std::vector<Assignment> entries_;
  std::vector<TaskOrigin> origins_;
  std::vector<int64_t> kept_versions_;
  std::vector<UpcomingTask> ahead_;
  // Rank 0 only.
  CostModel costs_;
  int64_t piece_ = 1;  // participants that a rank takes at once
  double byte_s_;      // of a byte between two ranks
  AheadTasks trained_ahead_;
};

template <class Work>
void RoundPlan::for_mine(Work work) {
  if (queue_) {
    queue_->start(static_cast<int64_t>(entries_.size()), piece_);
    if (worker_ < 0) return queue_->serve();
    for (WorkQueue::Piece piece; !(piece = queue_->next()).empty();) {
      for (int64_t entry = piece.begin; entry < piece.end; ++entry) {
        work(static_cast<std::size_t>(entry));
      }
    }
    return;
  }
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    if (entries_[entry].worker == worker_) work(entry);
  }
}

}  // namespace hanse
