#include "federated/round_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "attempt.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

int64_t StateHomes::of(int64_t client) const {
  const auto found = homes_.find(client);
  return found != homes_.end() ? found->second : -1;
}

bool StateHomes::keeps(int64_t client) const {
  if (mine_ < 0) return false;
  const int64_t home = of(client);
  return mine_ == (home < 0 ? client % workers_ : home);
}

void StateHomes::learn() {
  if (!store_ || known_) return;
  known_ = true;
  const auto mine = store_->clients();
  auto all = comm_.gatherv(std::span<const int64_t>(mine), 0);
  bcast_list(comm_, all);
  for (const int64_t client : all) homes_[client] = client % workers_;
}

void StateHomes::move(std::span<const Assignment> plan, bool trains, std::exception_ptr& failure) {
  if (!store_) return;
  for (const Assignment& entry : plan) {
    if (!trains && of(entry.client) < 0) continue;
    const auto home = homes_.emplace(entry.client, entry.worker).first;
    if (home->second != entry.worker) move_one(entry.client, home->second, entry.worker, failure);
    home->second = entry.worker;
  }
}

// Zeros stand for a state that was not made because its rank has failed.
void StateHomes::move_one(int64_t client, int64_t from, int64_t to, std::exception_ptr& failure) {
  if (mine_ != from && mine_ != to) return;
  const int64_t first_rank = comm_.size() - workers_;
  const bool has_state = store_->contains(client);
  std::span<float> row;
  if (has_state) row = store_->row(client);
  if (mine_ == to) attempt(failure, [&] { row = store_->row(client); });
  std::vector<float> zeros(row.empty() ? to_index(store_->width()) : 0);
  if (row.empty()) row = zeros;
  if (mine_ == to) {
    comm_.recv(row, static_cast<int>(first_rank + from));
  } else {
    comm_.send(std::span<const float>(row), static_cast<int>(first_rank + to));
    if (has_state) store_->drop(client);
  }
}

// Collective: the first use of the communicator, by server.role = auto.
bool RoundPlan::server_hosts_clients() const {
  const ServerRole role = settings_.server.role;
  if (role == ServerRole::kAuto && traits_.server_hosts) return true;
  const bool one_host = role == ServerRole::kAuto &&
                        comm_.allreduce_one(int64_t{hosts_all_ranks()}, ReduceOp::kMin) == 1;
  return server_trains(role, comm_.size(), one_host);
}

RoundPlan::RoundPlan(Communicator& comm, Communicator& host, const Federation& federation,
                     ClientRunner& runner, const FederatedSettings& settings)
    : comm_(comm),
      host_(host),
      federation_(federation),
      settings_(settings),
      traits_(runner.schedule()),
      work_(runner.steps().work()),
      shared_(server_hosts_clients()),
      workers_(comm.size() - (shared_ ? 0 : 1)),
      worker_(comm.rank() - (shared_ ? 0 : 1)),
      homes_(comm, runner.states(), workers_, worker_),
      byte_s_(std::numeric_limits<double>::infinity()) {
  const bool runs_ahead = traits_.may_run_ahead && settings_.async.is_on();
  const bool is_open =
      settings_.comm.dispatch != AskedDispatch::kPlanned && traits_.may_be_open && !runs_ahead;
  const Dispatch dispatch = choose_dispatch(is_open, comm_.size(), hosts_all_ranks(), shared_);
  if (dispatch == Dispatch::kSharedQueue) queue_ = make_shared_queue(host_, workers_);
  if (dispatch == Dispatch::kServedQueue) queue_ = make_served_queue(comm_);
  // A queue hands a slow rank less by itself, and nobody knows there who trained whom.
  if (!queue_ && workers_ > 1) costs_ = CostModel(workers_);
}

double RoundPlan::samples_of(int64_t client, int64_t steps) const {
  return static_cast<double>(samples_processed(work_, federation_.train(client).size(), steps));
}

int64_t RoundPlan::next_client(std::size_t entry) const {
  if (queue_) return -1;
  const auto next =
      std::find_if(entries_.begin() + static_cast<std::ptrdiff_t>(entry) + 1, entries_.end(),
                   [&](const Assignment& one) { return one.worker == worker_; });
  return next == entries_.end() ? -1 : next->client;
}

int64_t RoundPlan::client_at(int64_t position) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Assignment& one) { return one.position == position; });
  return found->client;
}

void RoundPlan::assign(const RoundTurnout& turnout, std::span<const double> importances,
                       int64_t round) {
  const std::vector<int64_t>& clients = turnout.draw.clients;
  std::vector<double> costs;
  std::vector<int64_t> homes;
  std::vector<int64_t> trained(clients.size(), -1);  // by this worker, ahead of its round
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const TaskOrigin origin = turnout.tasks.empty() ? TaskOrigin() : turnout.tasks[i];
    trained[i] = trained_ahead_.take(clients[i], origin);
    const double cost = costs_.predict(clients[i], samples_of(clients[i], origin.steps));
    costs.push_back(trained[i] < 0 ? cost : 0);
    if (!homes_.empty()) homes.push_back(homes_.of(clients[i]));
  }
  piece_ = hosts_all_ranks() ? 1 : piece_length(costs, costs_.has_measured(), workers_);
  const double move_s = homes_.empty() ? 0 : static_cast<double>(homes_.bytes()) * byte_s_;
  const auto slowness = costs_.slowness();
  const bool in_groups = traits_.group > 1;
  auto worker_of = in_groups ? balance_groups(costs, traits_.group, workers_, slowness)
                             : balance(costs, workers_, homes, move_s, slowness);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (trained[i] >= 0) worker_of[i] = trained[i];
  }
  // One worker trains them as they are drawn: often by number, as their samples lie in memory.
  std::vector<int64_t> order(clients.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!in_groups && workers_ > 1) order = by_start(costs, worker_of);
  clear();
  kept_versions_ = turnout.kept;
  for (const int64_t position : order) {
    const auto i = to_index(position);
    if (!turnout.tasks.empty()) origins_.push_back(turnout.tasks[i]);
    entries_.push_back({.client = clients[i],
                        .position = position,
                        .worker = worker_of[i],
                        .coefficient = 0,
                        .importance = importances[i]});
  }
  if (!homes_.empty() && !origins_.empty()) in_groups ? chain_groups() : chain_tasks();
  const bool may_wait = workers_ > 1 && traits_.may_run_ahead && !queue_;
  if (may_wait && turnout.upcoming) plan_ahead(costs, turnout.upcoming());
  if (settings_.round_seconds > 0) order_at_random(round);
}

// A client's tasks of one round train on one rank, in the draw's order: each needs the state that
// the one before has left.
void RoundPlan::chain_tasks() {
  std::unordered_map<int64_t, std::vector<std::size_t>> of_client;  // entries
  for (std::size_t i = 0; i < entries_.size(); ++i) of_client[entries_[i].client].push_back(i);
  for (auto& [client, places] : of_client) {
    std::vector<std::size_t> tasks = places;
    std::ranges::sort(tasks, {}, [&](std::size_t i) { return entries_[i].position; });
    std::vector<std::pair<Assignment, TaskOrigin>> chain;
    for (const std::size_t i : tasks) chain.emplace_back(entries_[i], origins_[i]);
    for (std::size_t i = 0; i < chain.size(); ++i) {
      chain[i].first.worker = chain[0].first.worker;
      std::tie(entries_[places[i]], origins_[places[i]]) = chain[i];
    }
  }
}

// The same of groups: those that share a client train on one rank.
void RoundPlan::chain_groups() {
  const auto size = to_index(traits_.group);
  std::vector<std::size_t> leader((entries_.size() + size - 1) / size);  // of each group
  std::iota(leader.begin(), leader.end(), std::size_t{0});
  std::unordered_map<int64_t, std::size_t> of_client;  // its first group
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::size_t known = of_client.try_emplace(entries_[i].client, i / size).first->second;
    const auto [first, second] = std::minmax(leader[known], leader[i / size]);
    std::ranges::replace(leader, std::size_t{second}, std::size_t{first});
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].worker = entries_[leader[i / size] * size].worker;
  }
}

// For a round with a time limit: who is left out must not depend on its cost.
void RoundPlan::order_at_random(int64_t round) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Assignment& a, const Assignment& b) { return a.position < b.position; });
  RandomStream(settings_.seed, Purpose::kDeadline, static_cast<uint64_t>(round))
      .shuffle(std::span(entries_));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].worker = static_cast<int64_t>(i) / traits_.group % workers_;
  }
}

void RoundPlan::weigh(std::span<const double> coefficients) {
  for (auto& entry : entries_) {
    entry.coefficient = coefficients[to_index(entry.position)];
  }
}

PlanMessage RoundPlan::share(PlanMessage message) {
  constexpr auto kFirst = static_cast<int64_t>(PlanMessage::kCandidates);
  auto head = static_cast<int64_t>(message);
  if (message == PlanMessage::kParticipants) head = std::ssize(entries_);
  if (message == PlanMessage::kCandidates) head -= std::ssize(entries_);
  comm_.bcast(std::span(&head, 1), 0);
  for (const auto alone : {PlanMessage::kMeasureAll, PlanMessage::kNoRound}) {
    if (head == static_cast<int64_t>(alone)) return alone;
  }
  const bool are_candidates = head <= kFirst;
  entries_.resize(to_index(are_candidates ? kFirst - head : head));
  comm_.bcast(std::as_writable_bytes(std::span(entries_)), 0);
  if (settings_.timed) share_origins();
  return are_candidates ? PlanMessage::kCandidates : PlanMessage::kParticipants;
}

// Fills the time in which workers would wait for the last one.
void RoundPlan::plan_ahead(std::span<const double> costs, std::span<const UpcomingTask> upcoming) {
  std::vector<double> loads(to_index(workers_));
  for (const Assignment& entry : entries_) {
    loads[to_index(entry.worker)] += costs[to_index(entry.position)];
  }
  ahead_ = trained_ahead_.plan(std::move(loads), upcoming, [&](const UpcomingTask& task) {
    return costs_.predict(task.client, samples_of(task.client, task.origin.steps));
  });
}

void RoundPlan::share_origins() {
  bcast_list(comm_, ahead_);
  bcast_list(comm_, origins_);
  bcast_list(comm_, kept_versions_);
}

void RoundPlan::observe(const Findings& findings) {
  std::vector<Measurement> measured;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!findings.trained(i)) continue;
    measured.push_back({.client = entries_[i].client,
                        .units = samples_of(entries_[i].client, steps_of(i)),
                        .seconds = findings.of(i, Findings::kSeconds),
                        .worker = entries_[i].worker});
  }
  costs_.observe(measured);
}

void RoundPlan::observe(const ExchangeReport& exchange) {
  byte_s_ = (exchange.times.reduce_s + exchange.times.broadcast_s) /
            static_cast<double>(exchange.sum_bytes);
}

}  // namespace hanse
