#include "bandit_run.hpp"

#include <algorithm>

#include "attempt.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

template <class T>
void bcast_vector(Communicator& comm, std::vector<T>& values) {
  auto size = static_cast<int64_t>(values.size());
  comm.bcast(std::span(&size, 1), 0);
  values.resize(to_index(size));
  comm.bcast(std::span(values), 0);
}

}  // namespace

int64_t first_client(int64_t rank, int64_t ranks, int64_t clients) {
  return (rank * clients + ranks - 1) / ranks;
}

BanditRun::BanditRun(BanditSetup setup, Communicator& comm)
    : setup_(std::move(setup)),
      comm_(comm),
      begin_(first_client(comm.rank(), comm.size(), setup_.clients)),
      end_(first_client(comm.rank() + 1, comm.size(), setup_.clients)),
      best_value_(*std::max_element(setup_.arms.values.begin(), setup_.arms.values.end())) {
  check_options(setup_.ucb);
  numbers_.regret_of.resize(to_index(setup_.clients));
  numbers_.best_of.resize(to_index(setup_.clients));
}

// Of a pull, beside the best arm's.
double BanditRun::regret(int64_t arm) const {
  return best_value_ - setup_.arms.values[to_index(arm)];
}

int64_t BanditRun::row_width() const {
  return statistics_width(setup_.arms.size(), dimension(),
                          statistics_form(setup_.statistics, setup_.arms.size(), dimension()));
}

void BanditRun::explore() {
  const auto seen = pull_uniformly();
  w0_.assign(to_index(dimension()), 0.0);
  if (setup_.network) {
    const RewardNetwork network(setup_.arms.inputs, setup_.oracle.hidden);
    auto fit = fit_network(network, seen, setup_.exploration, setup_.oracle, setup_.seed, comm_);
    w0_ = std::move(fit.w);
    numbers_.fit_loss = fit.loss;
  }
  start_policy();
  start_clients();
}

// Every rank knows all arms and rewards of this phase from their streams; it keeps its clients'.
std::vector<Exploration> BanditRun::pull_uniformly() {
  std::vector<Exploration> seen(to_index(end_ - begin_));
  RandomStream arms(setup_.seed, Purpose::kExploration);
  RandomStream noise(setup_.seed, Purpose::kReward);
  const auto inputs = to_index(setup_.arms.inputs);
  for (int64_t t = 0; t < setup_.exploration; ++t) {
    const auto arm = to_index(arms.below(setup_.arms.size()));
    const double reward = setup_.arms.values[arm] + setup_.noise * noise.normal();
    numbers_.explore_regret += regret(static_cast<int64_t>(arm));
    const int64_t c = t % setup_.clients;
    if (!is_mine(c)) continue;
    Exploration& mine = seen[to_index(c - begin_)];
    const auto x = std::span(setup_.arms.points).subspan(arm * inputs, inputs);
    mine.points.insert(mine.points.end(), x.begin(), x.end());
    mine.rewards.push_back(reward);
  }
  return seen;
}

void BanditRun::start_policy() {
  policy_ = make_policy(setup_, w0_);
  total_.assign(to_index(policy_->row_width()), 0.0);
}

// Clients that know what all know and nothing else.
void BanditRun::start_clients() {
  clients_.clear();
  for (int64_t c = begin_; c < end_; ++c) clients_.push_back(policy_->make_client(c));
  turns_.resize(clients_.size());
}

void BanditRun::play_round() {
  const int64_t bytes_before = comm_.bytes_moved();
  ++round_;
  discarded_here_ = 0;
  proposed_until_ = begin_;
  for (int64_t from = 0; from < setup_.clients;) {
    const int64_t mine = propose_turns(from);
    const int64_t trigger = comm_.allreduce_one(mine, ReduceOp::kMin);
    const int64_t to = std::min(trigger + 1, setup_.clients);
    commit_turns(from, to);
    if (trigger < setup_.clients) synchronize();
    from = to;
  }
  count_round();
  numbers_.bytes += comm_.bytes_moved() - bytes_before;
}

// Proposes the turns of this rank's clients from `from` on, up to the first that triggers, and
// returns that client; the number of clients when none does.
int64_t BanditRun::propose_turns(int64_t from) {
  for (proposed_until_ = std::max(from, begin_); proposed_until_ < end_;) {
    Turn& turn = turns_[to_index(proposed_until_ - begin_)];
    turn = {};  // after a failure
    attempt(failure_, [&] { turn = client(proposed_until_).next(); });
    if (turn.triggers) return proposed_until_++;
    ++proposed_until_;
  }
  return setup_.clients;
}

void BanditRun::commit_turns(int64_t from, int64_t to) {
  const int64_t stop = std::min(to, end_);
  for (int64_t c = std::max(from, begin_); c < stop; ++c) {
    const Turn& turn = turns_[to_index(c - begin_)];
    RandomStream noise(setup_.seed, Purpose::kReward, static_cast<uint64_t>(round_),
                       static_cast<uint64_t>(c));
    const double reward = setup_.arms.values[to_index(turn.arm)] + setup_.noise * noise.normal();
    attempt(failure_, [&] { client(c).play(turn, reward); });
  }
  discarded_here_ += std::max<int64_t>(0, proposed_until_ - std::max(to, begin_));
}

void BanditRun::synchronize() {
  const auto width = total_.size();
  std::vector<double> news;
  for (const auto& one : clients_) {
    if (one->own().arms.empty()) continue;
    news.resize(news.size() + width);
    policy_->add(one->own(), std::span(news).last(width));
  }
  const auto all = comm_.gatherv(std::span<const double>(news), 0);
  for (std::size_t at = 0; at < all.size(); at += width) {
    for (std::size_t i = 0; i < width; ++i) total_[i] += all[at + i];
  }
  comm_.bcast(std::span(total_), 0);
  ++numbers_.syncs;
  attempt(failure_, [&] {
    numbers_.scalars += policy_->know(total_);
    start_clients();
  });
}

void BanditRun::count_round() {
  std::vector<int64_t> arms;
  for (const Turn& turn : turns_) arms.push_back(turn.arm);
  const auto all = comm_.gatherv(std::span<const int64_t>(arms), 0);
  comm_.reduce(std::span(&discarded_here_, 1), ReduceOp::kSum, 0);
  if (!is_server()) return;
  numbers_.replayed += discarded_here_;
  numbers_.round_regret = 0;
  for (std::size_t c = 0; c < all.size(); ++c) {
    const double lost = regret(all[c]);
    numbers_.regret_of[c] += lost;
    numbers_.best_of[c] += lost == 0 ? 1 : 0;
    numbers_.round_regret += lost;
  }
  numbers_.regret += numbers_.round_regret;
}

double BanditRun::explore_scalars() const {
  if (!setup_.network) return 0;
  return 2 * static_cast<double>(setup_.oracle.steps * setup_.clients * dimension());
}

void BanditRun::collect() {
  OwnPulls mine;
  for (const auto& one : clients_) {
    const Pulls& own = one->own();
    mine.counts.push_back(std::ssize(own.arms));
    mine.pulls.arms.insert(mine.pulls.arms.end(), own.arms.begin(), own.arms.end());
    mine.pulls.rewards.insert(mine.pulls.rewards.end(), own.rewards.begin(), own.rewards.end());
  }
  own_.counts = comm_.gatherv(std::span<const int64_t>(mine.counts), 0);
  own_.pulls.arms = comm_.gatherv(std::span<const int64_t>(mine.pulls.arms), 0);
  own_.pulls.rewards = comm_.gatherv(std::span<const double>(mine.pulls.rewards), 0);
}

std::vector<double> BanditRun::centre() const {
  auto all = total_;
  policy_->add(own_.pulls, all);
  auto centre = policy_->estimate(all, 0);
  for (std::size_t i = 0; i < centre.size(); ++i) centre[i] += w0_[i];
  return centre;
}

// Arrays of a checkpoint: visit(name, values).
template <class Run, class Visit>
void BanditRun::for_saved(Run& run, const Visit& visit) {
  visit("w0", run.w0_);
  visit("own_counts", run.own_.counts);
  visit("own_arms", run.own_.pulls.arms);
  visit("own_rewards", run.own_.pulls.rewards);
  visit("total", run.total_);
  visit("regret_of", run.numbers_.regret_of);
  visit("best_of", run.numbers_.best_of);
}

void BanditRun::save(State& state) const {
  for_saved(*this,
            [&](const char* name, const auto& values) { state.put(name, std::span(values)); });
  const double regrets[] = {numbers_.explore_regret, numbers_.regret, numbers_.round_regret,
                            numbers_.fit_loss, numbers_.scalars};
  const int64_t counts[] = {round_, numbers_.syncs, numbers_.replayed, numbers_.bytes};
  state.put("regrets", std::span(regrets));
  state.put("counts", std::span(counts));
}

void BanditRun::load(const State& state) {
  std::vector<double> regrets;
  std::vector<int64_t> counts;
  if (is_server()) {
    regrets = state.get<double>("regrets");
    counts = state.get<int64_t>("counts");
  }
  for_saved(*this, [&]<class T>(const char* name, std::vector<T>& values) {
    if (is_server()) values = state.get<T>(name);
    bcast_vector(comm_, values);
  });
  bcast_vector(comm_, regrets);
  bcast_vector(comm_, counts);
  round_ = counts.at(0);
  numbers_ = {.explore_regret = regrets.at(0),
              .regret = regrets.at(1),
              .round_regret = regrets.at(2),
              .fit_loss = regrets.at(3),
              .scalars = regrets.at(4),
              .syncs = counts.at(1),
              .replayed = counts.at(2),
              .bytes = counts.at(3),
              .regret_of = std::move(numbers_.regret_of),
              .best_of = std::move(numbers_.best_of)};
  restore_clients();
}

// From w0_, total_ and own_.
void BanditRun::restore_clients() {
  const auto total = total_;
  start_policy();
  total_ = total;
  policy_->know(total_);
  start_clients();
  std::size_t at = 0;
  for (int64_t c = 0; c < setup_.clients; ++c) {
    const auto n = to_index(own_.counts[to_index(c)]);
    if (is_mine(c)) {
      const auto arms = std::span(own_.pulls.arms).subspan(at, n);
      const auto rewards = std::span(own_.pulls.rewards).subspan(at, n);
      client(c).replay({{arms.begin(), arms.end()}, {rewards.begin(), rewards.end()}});
    }
    at += n;
  }
}

}  // namespace hanse
