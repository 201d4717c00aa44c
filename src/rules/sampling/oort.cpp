#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/timed.hpp"

namespace hanse {

namespace {

constexpr double kUnknown = -1;  // a duration that nobody has said

// Clients that may be drawn, and what each weighs.
struct Pool {
  std::vector<int64_t> clients;
  std::vector<double> weights;  // equal ones where all would be 0
  int64_t count = 0;            // to draw

  void add(int64_t client, double weight) {
    clients.push_back(client);
    weights.push_back(weight);
  }
  // In the order drawn, without replacement.
  std::vector<int64_t> pick(RandomStream& stream) const {
    if (count == std::ssize(clients)) return clients;
    std::vector<int64_t> picks;
    if (count == 0) return picks;
    const auto draw = make_weighted_sampler(weights, count, false)->draw(1, count, stream);
    for (const int64_t k : draw.clients) picks.push_back(clients[to_index(k)]);
    return picks;
  }
  double sum() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
  // The probability that a draw of `all`, picked at random, is this pool's k-th client, were it the
  // pool's first.
  double share(std::size_t k, int64_t all) const {
    return static_cast<double>(count) / static_cast<double>(all) * weights[k] / sum();
  }
};

// A round's draw before chance decides.
struct Pools {
  Pool fresh;  // clients that never took part
  Pool known;
};

// Positions of `weights`, the largest first, and the first of equals.
std::vector<std::size_t> by_weight(std::span<const double> weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return weights[i] > weights[j]; });
  return order;
}

class Oort final : public ClientSampler {
 public:
  Oort(const OortOptions& options, bool is_reference, std::span<const double> samples,
       int64_t per_round)
      : ClientSampler(std::ssize(samples), per_round),
        options_(options),
        is_reference_(is_reference),
        available_(std::ssize(samples)),
        samples_(samples.begin(), samples.end()),
        utilities_(samples.size()),
        durations_(samples.size(), kUnknown),
        last_round_(samples.size()),
        exploration_(options.exploration),
        percentile_(options.pacer) {}

  Draw draw(int64_t, int64_t n, RandomStream& stream) override {
    const Pools pools = pools_of(available_, n);
    std::vector<int64_t> chosen;
    for (const Pool* pool : {&pools.fresh, &pools.known}) {
      const auto picks = pool->pick(stream);
      chosen.insert(chosen.end(), picks.begin(), picks.end());
    }
    return draw_of(std::move(chosen), pools, n);
  }

  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    if (std::ssize(draws) != std::min(n, available_.size())) {
      throw InvalidArgument(
          fmt::format("{} draws, expected {}", draws.size(), std::min(n, available_.size())),
          "draws");
    }
    std::vector<bool> seen(samples_.size());
    for (const int64_t client : draws) {
      const bool known = client >= 0 && client < clients() && available_.contains(client);
      if (!known || seen[to_index(client)]) {
        throw InvalidArgument(fmt::format("client {} is away or stands twice", client), "draws",
                              "these draws are without replacement");
      }
      seen[to_index(client)] = true;
    }
    return draw_of({draws.begin(), draws.end()}, pools_of(available_, n), n);
  }

  double probability(int64_t client) const override {
    if (all_probabilities_.empty()) {
      all_probabilities_ = shares(pools_of(ClientSet(clients()), per_round()), per_round());
    }
    return all_probabilities_[to_index(client)];
  }

  void toggle(std::span<const int64_t> changed) override {
    for (const int64_t client : changed) available_.toggle(client);
  }
  const ClientSet& available() const override { return available_; }

  bool needs_squares() const override { return true; }
  void observe(const Draw& draw, const Feedback& feedback) override;
  void observe_late(std::span<const int64_t> clients, std::span<const double> durations) override {
    for (std::size_t i = 0; i < clients.size(); ++i) note_duration(clients[i], durations[i]);
    all_probabilities_.clear();
  }

 private:
  int64_t round() const { return rounds_ + 1; }  // R of the next draw
  // eps of the next draw.
  double exploration() const {
    const double least = options_.exploration_min.value_or(is_reference_ ? 0.3 : 0.2);
    return std::max(exploration_ * options_.exploration_decay, least);
  }
  bool is_known(int64_t client) const { return last_round_[to_index(client)] > 0; }
  void note_duration(int64_t client, double seconds) {
    if (std::isfinite(seconds) && seconds >= 0) durations_[to_index(client)] = seconds;
  }

  double preferred_duration() const;
  // What the client's duration leaves of its weight.
  double penalty(int64_t client, double preferred) const {
    const double seconds = durations_[to_index(client)];
    return seconds > preferred ? std::pow(preferred / seconds, options_.penalty) : 1;
  }
  Pools pools_of(const ClientSet& there, int64_t n) const;
  void score(Pool& known) const;
  void cut(Pool& known) const;
  void choose_window(Pool& fresh) const;
  std::vector<double> shares(const Pools& pools, int64_t n) const;
  Draw draw_of(std::vector<int64_t> chosen, const Pools& pools, int64_t n) const;
  void pace();

  void visit(StateFields& fields) override {
    fields.fixed("utilities", utilities_);
    fields.fixed("durations", durations_);
    fields.fixed("last", last_round_);
    fields.all("history", history_);
    fields.one("rounds", rounds_);
    fields.numbers<double>("exploration_and_percentile", {&exploration_, &percentile_});
    if (!fields.loads()) return;
    available_ = ClientSet(clients());
    all_probabilities_.clear();
  }

  OortOptions options_;
  bool is_reference_;
  ClientSet available_;
  std::vector<double> samples_;      // [M]
  std::vector<double> utilities_;    // [M] U_i of the last participation
  std::vector<double> durations_;    // [M] seconds
  std::vector<int64_t> last_round_;  // [M] L_i; 0: it never took part
  std::vector<double> history_;      // means of U_i of the known participants, of 2 W rounds
  int64_t rounds_ = 0;               // in which somebody took part
  double exploration_;               // eps of the last draw
  double percentile_;                // of the pacer
  mutable std::vector<double> all_probabilities_;  // [M] of the next draw; empty: not computed
};

// T: infinity where nobody is slow.
double Oort::preferred_duration() const {
  std::vector<double> known;
  for (const double seconds : durations_) {
    if (seconds != kUnknown) known.push_back(seconds);
  }
  if (known.empty() || percentile_ >= 100) return std::numeric_limits<double>::infinity();
  const double rank = static_cast<double>(known.size()) * percentile_ / 100;
  const auto at = known.begin() + std::min(static_cast<int64_t>(rank), std::ssize(known) - 1);
  std::nth_element(known.begin(), at, known.end());
  return *at;
}

Pools Oort::pools_of(const ClientSet& there, int64_t n) const {
  const double preferred = preferred_duration();
  Pools pools;
  auto& [fresh, known] = pools;
  for (int64_t k = 0; k < there.size(); ++k) {
    const int64_t client = there.select(k);
    const double slowness = penalty(client, preferred);
    if (is_known(client)) {
      known.add(client, slowness);
    } else {
      fresh.add(client, samples_[to_index(client)] * slowness);
    }
  }
  const auto explore = static_cast<int64_t>(exploration() * static_cast<double>(n));
  known.count = std::min(n - explore, std::ssize(known.clients));
  fresh.count = std::min(n - known.count, std::ssize(fresh.clients));
  known.count = std::min(n - fresh.count, std::ssize(known.clients));
  score(known);
  cut(known);
  choose_window(fresh);
  for (Pool* pool : {&fresh, &known}) {
    if (!(pool->sum() > 0)) std::fill(pool->weights.begin(), pool->weights.end(), 1.0);
  }
  return pools;
}

// Multiplies what is left of the weights by v_i without the penalty.
void Oort::score(Pool& known) const {
  if (known.clients.empty()) return;
  std::vector<double> sorted;
  for (const int64_t client : known.clients) sorted.push_back(utilities_[to_index(client)]);
  std::sort(sorted.begin(), sorted.end());
  const double quantile = options_.clip_quantile.value_or(is_reference_ ? 0.9 : 0.95);
  const auto rank = static_cast<int64_t>(static_cast<double>(sorted.size()) * quantile);
  const double most = sorted[to_index(std::min(rank, std::ssize(sorted) - 1))];
  const double least = 0.999 * sorted.front();
  const double range = std::max(sorted.back() - least, 1e-4);
  for (std::size_t k = 0; k < known.clients.size(); ++k) {
    const std::size_t client = to_index(known.clients[k]);
    const double age = static_cast<double>(last_round_[client]);
    const double doubt = std::sqrt(0.1 * std::log(static_cast<double>(round())) / age);
    known.weights[k] *= (std::min(utilities_[client], most) - least) / range + doubt;
  }
}

// Leaves those whose weight is large enough, the largest first.
void Oort::cut(Pool& known) const {
  if (known.count == 0) return;
  const auto order = by_weight(known.weights);
  const auto size = std::ssize(order);
  const int64_t at = is_reference_ ? std::min(known.count, size - 1) : known.count - 1;
  const double least = (is_reference_ ? 0.05 : 0.95) * known.weights[order[to_index(at)]];
  const double enough = is_reference_ ? 10 * static_cast<double>(known.count) : 0;
  Pool kept{.count = known.count};
  for (const std::size_t k : order) {
    if (known.weights[k]<least&& static_cast<double>(kept.clients.size())> enough) break;
    kept.add(known.clients[k], known.weights[k]);
  }
  known = std::move(kept);
}

void Oort::choose_window(Pool& fresh) const {
  const auto size = static_cast<int64_t>(options_.window * static_cast<double>(fresh.count));
  Pool kept{.count = fresh.count};
  for (const std::size_t k : by_weight(fresh.weights)) {
    if (std::ssize(kept.clients) == size) break;
    kept.add(fresh.clients[k], fresh.weights[k]);
  }
  fresh = std::move(kept);
}

std::vector<double> Oort::shares(const Pools& pools, int64_t n) const {
  std::vector<double> p(samples_.size());
  for (const Pool* pool : {&pools.fresh, &pools.known}) {
    for (std::size_t k = 0; k < pool->clients.size() && pool->count > 0; ++k) {
      p[to_index(pool->clients[k])] = pool->share(k, n);
    }
  }
  return p;
}

Draw Oort::draw_of(std::vector<int64_t> chosen, const Pools& pools, int64_t n) const {
  const auto all = shares(pools, std::min(n, available_.size()));
  Draw draw;
  draw.clients = std::move(chosen);
  const auto number = static_cast<double>(draw.size());
  draw.everyone = static_cast<int64_t>(draw.size()) == available_.size();
  draw.counts.assign(draw.size(), 1);
  draw.weights.assign(draw.size(), static_cast<double>(available_.size()) / number);
  for (const int64_t client : draw.clients) draw.probabilities.push_back(all[to_index(client)]);
  return draw;
}

void Oort::observe(const Draw& draw, const Feedback& feedback) {
  if (feedback.squares.size() != draw.size() || feedback.sizes.size() != draw.size()) {
    throw InvalidArgument("sampler oort needs squares and sizes of every participant", "feedback");
  }
  if (draw.size() == 0) return;
  const std::vector<double> squares = heard(feedback.squares);
  check_feedback(draw, squares);
  double sum = 0, known = 0;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const double utility = std::sqrt(feedback.sizes[i] * squares[i]);
    const std::size_t client = to_index(draw.clients[i]);
    if (last_round_[client] > 0) {
      sum += utility;
      ++known;
    }
    utilities_[client] = utility;
    last_round_[client] = round();
    if (!feedback.durations.empty()) note_duration(draw.clients[i], feedback.durations[i]);
  }
  exploration_ = exploration();
  ++rounds_;
  history_.push_back(known > 0 ? sum / known : 0);
  pace();
  all_probabilities_.clear();
}

// The pacer's decision before round R = rounds_ + 1; round 0 counts as one without utility.
void Oort::pace() {
  const int64_t w = options_.pacer_every;
  if (std::ssize(history_) > 2 * w) history_.erase(history_.begin());
  if (round() < 2 * w || round() % w != 0) return;
  const auto middle = history_.end() - w;
  const double now = std::accumulate(middle, history_.end(), 0.0);
  const double before =
      std::accumulate(middle - std::min(w, middle - history_.begin()), middle, 0.0);
  const double change = std::abs(now - before);
  if (change <= 0.1 * before) {
    percentile_ = std::min(100.0, percentile_ + options_.pacer_step);
  } else if (change >= 5 * before) {
    percentile_ = std::max(options_.pacer_step, percentile_ - options_.pacer_step);
  }
}

void check(bool is_right, const std::string& key, double value, const std::string& range) {
  if (is_right) return;
  throw InvalidArgument(fmt::format("{} is out of range {}", value, range), "sampler." + key);
}

}  // namespace

std::unique_ptr<ClientSampler> make_oort_sampler(const OortOptions& options, Variant variant,
                                                 std::span<const double> samples,
                                                 int64_t per_round) {
  const auto within = [](double x, double low, double high) { return x >= low && x <= high; };
  const double least = options.exploration_min.value_or(0.2);
  const double clip = options.clip_quantile.value_or(0.95);
  check(within(options.exploration, 0, 1), "exploration", options.exploration, "[0, 1]");
  check(within(options.exploration_decay, 0, 1), "exploration-decay", options.exploration_decay,
        "[0, 1]");
  check(within(least, 0, 1), "exploration-min", least, "[0, 1]");
  check(within(clip, 0, 1) && clip > 0, "clip-quantile", clip, "(0, 1]");
  check(options.window >= 1, "window", options.window, "[1, inf)");
  check(options.pacer_every >= 1, "pacer-every", static_cast<double>(options.pacer_every),
        "[1, inf)");
  if (variant == Variant::kCorrected) {
    throw InvalidArgument("oort has no variant 'corrected'", "sampler.variant",
                          "known: paper, reference");
  }
  check_per_round(per_round, std::ssize(samples), false);
  return std::make_unique<Oort>(options, variant == Variant::kReference, samples, per_round);
}

}  // namespace hanse
