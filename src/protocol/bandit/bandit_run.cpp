#include "bandit/bandit_run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attempt.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

namespace {

constexpr double kUnit = 0x1p-36;
constexpr double kLargest = 0x1p26;  // of a sum: 2^62 units

// Adds the client's part of grad L and of L, in units; false when one cannot be written in them.
bool add_gradient(const RewardNetwork& network, const Exploration& client, int64_t pulls,
                  std::span<const double> w, std::span<int64_t> sum) {
  const auto inputs = static_cast<std::size_t>(network.inputs());
  std::vector<double> gradient(w.size());
  std::vector<double> total(w.size() + 1);  // the last is of L
  for (std::size_t s = 0; s < client.rewards.size(); ++s) {
    const auto x = std::span(client.points).subspan(s * inputs, inputs);
    const double error = network.gradient(x, w, gradient) - client.rewards[s];
    const double scale = 2 * error / static_cast<double>(pulls);
    for (std::size_t i = 0; i < w.size(); ++i) total[i] += scale * gradient[i];
    total.back() += error * error / static_cast<double>(pulls);
  }
  bool fits = true;
  for (std::size_t i = 0; i < total.size(); ++i) {
    const bool small = std::abs(total[i]) < kLargest / static_cast<double>(pulls);  // NaN is not
    fits = fits && small;
    sum[i] += small ? std::llrint(total[i] / kUnit) : 0;
  }
  return fits;
}

// Fits the networks of clients from `begin` on, one after another: each one's w0, and its part of
// the mean squared error.
std::vector<double> fit_own_networks(const BanditSetup& setup, int64_t begin,
                                     const std::vector<Exploration>& seen) {
  const RewardNetwork network(setup.arms.inputs, setup.oracle.hidden);
  const auto alone = make_single_communicator();
  std::vector<double> fits;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto pulls = std::ssize(seen[i].rewards);
    const OracleStream stream{setup.seed, begin + static_cast<int64_t>(i) + 1};
    const auto fit =
        fit_network(network, std::span(seen).subspan(i, 1), pulls, setup.oracle, stream, *alone);
    fits.insert(fits.end(), fit.w.begin(), fit.w.end());
    fits.push_back(fit.loss * static_cast<double>(pulls) / static_cast<double>(setup.exploration));
  }
  return fits;
}

// Visits each client and its pulls since the last synchronization.
template <class Visit>
void for_each_client(const OwnPulls& own, const Visit& visit) {
  std::size_t at = 0;
  for (std::size_t c = 0; c < own.counts.size(); ++c) {
    const auto n = to_index(own.counts[c]);
    const auto arms = std::span(own.pulls.arms).subspan(at, n);
    const auto rewards = std::span(own.pulls.rewards).subspan(at, n);
    visit(static_cast<int64_t>(c),
          Pulls{{arms.begin(), arms.end()}, {rewards.begin(), rewards.end()}});
    at += n;
  }
}

}  // namespace

NetworkFit fit_network(const RewardNetwork& network, std::span<const Exploration> clients,
                       int64_t pulls, const OracleOptions& options, const OracleStream& stream,
                       Communicator& comm) {
  NetworkFit fit;
  fit.w.resize(static_cast<std::size_t>(network.n_params()));
  auto& w = fit.w;
  const auto owner = static_cast<uint64_t>(stream.client);
  RandomStream start(stream.seed, Purpose::kLangevin, 0, owner);
  for (double& value : w) value = options.spread * start.normal();
  const double deviation = std::sqrt(2 * options.step / options.temperature);
  std::vector<int64_t> sum(w.size() + 2);  // grad L, L, clients that do not fit
  for (int64_t k = 1; k <= options.steps; ++k) {
    sum.assign(sum.size(), 0);
    for (const Exploration& client : clients) {
      if (client.rewards.empty()) continue;
      const auto sums = std::span(sum).first(w.size() + 1);
      if (!add_gradient(network, client, pulls, w, sums)) ++sum.back();
    }
    comm.allreduce(std::span(sum), ReduceOp::kSum);
    if (sum.back() > 0) {
      throw InvalidArgument(fmt::format("the reward network diverges in step {} of its fit", k),
                            "bandit.step", "use a smaller step");
    }
    fit.loss = static_cast<double>(sum[w.size()]) * kUnit;
    RandomStream noise(stream.seed, Purpose::kLangevin, static_cast<uint64_t>(k), owner);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double gradient = static_cast<double>(sum[i]) * kUnit;
      w[i] += -options.step * gradient + deviation * noise.normal();
    }
  }
  return fit;
}

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
  numbers_.pulls_of.resize(setup_.arms.values.size());
  history_.resize(to_index(end_ - begin_));
}

// What a pull earns less than the best arm's.
double BanditRun::regret(int64_t arm) const {
  return best_value_ - setup_.arms.values[to_index(arm)];
}

void BanditRun::explore() {
  if (setup_.model == RewardModel::kNetwork) fit_networks(pull_uniformly());
  start_policy();
  start_clients();
}

void BanditRun::fit_networks(const std::vector<Exploration>& seen) {
  if (!setup_.own_models) {
    const RewardNetwork network(setup_.arms.inputs, setup_.oracle.hidden);
    auto fit =
        fit_network(network, seen, setup_.exploration, setup_.oracle, {.seed = setup_.seed}, comm_);
    w0_ = std::move(fit.w);
    numbers_.fit_loss = fit.loss;
    return;
  }
  std::vector<double> mine;
  agree_on(comm_, [&] { mine = fit_own_networks(setup_, begin_, seen); });
  auto all = comm_.gatherv(std::span<const double>(mine), 0);  // w0 and loss of each client
  bcast_list(comm_, all);
  const auto d = to_index(dimension());
  for (std::size_t at = 0; at < all.size(); at += d + 1) {
    const auto one = all.begin() + static_cast<int64_t>(at);
    w0_.insert(w0_.end(), one, one + static_cast<int64_t>(d));
    numbers_.fit_loss += all[at + d];
  }
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

// All clients know what all know together and nothing else.
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
  const bool draws = !policy_->members().empty();
  for (int64_t c = std::max(from, begin_); c < stop; ++c) {
    const Turn& turn = turns_[to_index(c - begin_)];
    RandomStream noise(setup_.seed, Purpose::kReward, static_cast<uint64_t>(round_),
                       static_cast<uint64_t>(c));
    const double reward = setup_.arms.values[to_index(turn.arm)] + setup_.noise * noise.normal();
    const double learnt = (reward - setup_.scale.low) / setup_.scale.span;
    attempt(failure_, [&] { client(c).play(turn, learnt); });
    if (draws) history_[to_index(c - begin_)].push_back(turn.arm);
  }
  discarded_here_ += std::max<int64_t>(0, proposed_until_ - std::max(to, begin_));
}

void BanditRun::synchronize() {
  const auto width = total_.size();
  std::vector<double> news;
  for (int64_t c = begin_; c < end_; ++c) {
    if (client(c).own().arms.empty()) continue;
    news.resize(news.size() + width);
    policy_->add(client(c).own(), c, std::span(news).last(width));
  }
  const auto all = comm_.gatherv(std::span<const double>(news), 0);
  for (std::size_t at = 0; at < all.size(); at += width) {
    for (std::size_t i = 0; i < width; ++i) total_[i] += all[at + i];
  }
  comm_.bcast(std::span(total_), 0);
  draw_dictionary();
  ++numbers_.syncs;
  attempt(failure_, [&] {
    numbers_.scalars += policy_->know(total_);
    start_clients();
  });
}

// A client draws from its own stream of the synchronization.
void BanditRun::draw_dictionary() {
  const auto members = policy_->members();
  if (members.empty()) return;
  std::vector<int64_t> drawn(members.size());
  for (int64_t c = begin_; c < end_; ++c) {
    RandomStream stream(setup_.seed, Purpose::kDictionary, static_cast<uint64_t>(numbers_.syncs),
                        static_cast<uint64_t>(c));
    policy_->draw(
        history_[to_index(c - begin_)], [&] { return stream.uniform(); }, drawn);
  }
  comm_.allreduce(std::span(drawn), ReduceOp::kSum);
  std::copy(drawn.begin(), drawn.end(), members.begin());
  dictionary_ = std::move(drawn);
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
    ++numbers_.pulls_of[to_index(all[c])];
  }
  numbers_.regret += numbers_.round_regret;
}

int64_t BanditRun::returned_arm() const {
  RandomStream stream(setup_.seed, Purpose::kReturned, static_cast<uint64_t>(round_));
  int64_t left = stream.below(round_ * setup_.clients);
  std::size_t arm = 0;
  while (left >= numbers_.pulls_of[arm]) left -= numbers_.pulls_of[arm++];
  return static_cast<int64_t>(arm);
}

double BanditRun::explore_scalars() const {
  if (networks_of(setup_) != 1) return 0;  // own networks are fitted without communication
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
  for (const auto& arms : history_) {
    mine.history.insert(mine.history.end(), arms.begin(), arms.end());
  }
  own_.history = comm_.gatherv(std::span<const int64_t>(mine.history), 0);
}

std::vector<double> BanditRun::model() const {
  std::vector<double> model, row = total_;
  for_each_client(own_, [&](int64_t c, const Pulls& own) {
    policy_->add(own, c, row);
    if (!setup_.own_models && c + 1 < setup_.clients) return;
    const auto estimate = policy_->estimate(row, c);
    model.insert(model.end(), estimate.begin(), estimate.end());
    if (setup_.own_models) row = total_;
  });
  for (std::size_t i = 0; i < w0_.size(); ++i) model[i] += w0_[i];
  return model;
}

void BanditRun::visit(StateFields& fields) {
  fields.all("w0", w0_);
  fields.all("own_counts", own_.counts);
  fields.all("own_arms", own_.pulls.arms);
  fields.all("own_rewards", own_.pulls.rewards);
  fields.all("own_history", own_.history);
  fields.all("total", total_);
  fields.all("dictionary", dictionary_);
  BanditNumbers& n = numbers_;
  fields.all("regret_of", n.regret_of);
  fields.all("best_of", n.best_of);
  fields.all("pulls_of", n.pulls_of);
  fields.numbers("regrets",
                 {&n.explore_regret, &n.regret, &n.round_regret, &n.fit_loss, &n.scalars});
  fields.numbers("counts", {&round_, &n.syncs, &n.replayed, &n.bytes});
  if (fields.loads()) restore_clients();
}

// Makes the clients from w0_, total_, dictionary_ and own_.
void BanditRun::restore_clients() {
  const auto total = total_;
  start_policy();
  total_ = total;
  std::copy(dictionary_.begin(), dictionary_.end(), policy_->members().begin());
  policy_->know(total_);
  start_clients();
  for_each_client(own_, [&](int64_t c, const Pulls& own) {
    if (is_mine(c)) client(c).replay(own);
  });
  if (own_.history.empty()) return;
  for (int64_t c = begin_; c < end_; ++c) {
    const auto arms = std::span(own_.history).subspan(to_index(c * round_), to_index(round_));
    history_[to_index(c - begin_)].assign(arms.begin(), arms.end());
  }
}

}  // namespace hanse
