#include "rules/sampling/osmd_reference.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hanse {

namespace {

std::size_t index(int64_t i) { return static_cast<std::size_t>(i); }

int64_t times_in(const std::vector<int64_t>& draws, int64_t client) {
  return std::count(draws.begin(), draws.end(), client);
}

}  // namespace

Distribution project_by_sorting(const std::vector<long double>& log_p, double alpha) {
  const std::size_t m = log_p.size();
  const long double floor = static_cast<long double>(alpha) / static_cast<long double>(m);
  const long double highest = *std::max_element(log_p.begin(), log_p.end());
  Distribution raised;  // p~, up to a factor
  for (const long double x : log_p) raised.push_back(std::exp(x - highest));
  std::vector<std::size_t> order(m);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return raised[a] < raised[b]; });
  Distribution tail(m + 1);
  for (std::size_t rank = m; rank-- > 0;) tail[rank] = tail[rank + 1] + raised[order[rank]];
  Distribution p(m, floor);
  for (std::size_t first = 0; first < m; ++first) {
    const long double above = 1 - static_cast<long double>(first) * floor;
    if (raised[order[first]] * above <= floor * tail[first]) continue;  // v_m <= u_m
    for (std::size_t rank = first; rank < m; ++rank) {
      p[order[rank]] = above * raised[order[rank]] / tail[first];
    }
    break;
  }
  return p;
}

OsmdReference::OsmdReference(const LearningOptions& options, int64_t clients, int64_t per_round,
                             std::span<const double> initial)
    : options_(options), clients_(clients), per_round_(per_round), a_max_(options.a_max) {
  Distribution first(initial.begin(), initial.end());
  if (first.empty()) first.assign(index(clients), 1.0L / static_cast<long double>(clients));
  begin_block(1, first);
}

void OsmdReference::begin_block(int64_t block, const Distribution& initial) {
  block_ = block;
  round_ = 1;
  const auto m = static_cast<long double>(clients_);
  horizon_ = options_.kind == OsmdKind::kDoubling ? int64_t{1} << (block - 1) : options_.horizon;
  int64_t experts = 1;
  if (options_.kind != OsmdKind::kFixed && clients_ > 1) {  // eqs. 23, 28
    const long double spread =
        4 * std::log(m / options_.alpha) / std::log(m) * static_cast<long double>(horizon_ - 1);
    experts = static_cast<int64_t>(std::ceil(std::log2(1 + spread) / 2)) + 1;
  }
  experts_.assign(index(experts), initial);
  log_theta_.clear();
  for (int64_t e = 1; e <= experts; ++e) {  // step 3 of Algorithm 5
    log_theta_.push_back(std::log((1 + 1.0L / static_cast<long double>(experts)) /
                                  static_cast<long double>(e * (e + 1))));
  }
}

void OsmdReference::set_rates() {
  const auto m = static_cast<long double>(clients_);
  const auto k = static_cast<long double>(per_round_);
  const auto t = static_cast<long double>(horizon_);
  const long double alpha = options_.alpha;
  const long double grid = options_.variant == Variant::kReference ? k / 2 : 1;
  eta_.clear();
  for (std::size_t e = 1; e <= experts_.size(); ++e) {
    // eq. 22, or 27: 2^(e - b/2 - 1/2) K alpha^3 sqrt(2 log M)/(M^3 A_max).
    const long double power = options_.kind == OsmdKind::kDoubling
                                  ? static_cast<long double>(e) - 0.5L * (block_ + 1)
                                  : static_cast<long double>(e) - 1 - 0.5L * std::log2(t);
    eta_.push_back(grid * std::exp2(power) * k * alpha * alpha * alpha *
                   std::sqrt(2 * std::log(m)) / (m * m * m * a_max_));
  }
  gamma_ = options_.variant == Variant::kCorrected
               ? k * alpha * alpha / (m * m * a_max_) * std::sqrt(8 / t)
               : alpha / m * std::sqrt(8 * k / (t * a_max_));
  if (options_.kind == OsmdKind::kFixed) gamma_ = 0;
  const bool unknown = !(a_max_ > 0);
  if (unknown) eta_.assign(experts_.size(), 0);
  if (unknown) gamma_ = 0;
  if (options_.kind == OsmdKind::kFixed && options_.eta) eta_ = {*options_.eta};
  if (options_.gamma && !unknown) gamma_ = *options_.gamma;
}

Distribution OsmdReference::theta() const {
  Distribution weights;
  for (const long double log : log_theta_) weights.push_back(std::exp(log));
  return weights;
}

Distribution OsmdReference::p() const { return q(std::vector<bool>(index(clients_), true)); }

Distribution OsmdReference::q(const std::vector<bool>& available) const {
  const Distribution weights = theta();
  Distribution mixed(index(clients_));
  for (std::size_t m = 0; m < mixed.size(); ++m) {
    for (std::size_t e = 0; available[m] && e < experts_.size(); ++e) {
      mixed[m] += weights[e] * experts_[e][m];
    }
  }
  const long double sum = std::accumulate(mixed.begin(), mixed.end(), 0.0L);
  const bool all = std::find(available.begin(), available.end(), false) == available.end();
  for (long double& x : mixed) x /= all ? 1 : sum;
  return mixed;
}

long double OsmdReference::loss(const std::vector<int64_t>& draws, const std::vector<double>& a,
                                const std::vector<bool>& available) const {
  const Distribution mixed = q(available);
  long double sum = 0;
  for (const int64_t client : draws) sum += a[index(client)] / std::pow(mixed[index(client)], 2);
  return sum / std::pow(static_cast<long double>(draws.size()), 2);
}

void OsmdReference::observe(const std::vector<int64_t>& draws, const std::vector<double>& a,
                            const std::vector<bool>& available) {
  const auto there = std::count(available.begin(), available.end(), true);
  if (there < clients_ && there <= per_round_) return;  // everyone took part: no choice, no lesson
  if (options_.bound == BoundSource::kRunning) {
    for (const int64_t client : draws) a_max_ = std::max<long double>(a_max_, a[index(client)]);
  }
  const Distribution mixed = q(available);
  if (options_.kind == OsmdKind::kDoubling && round_ == horizon_) {
    // Algorithm 5 learns in t = 1, ..., T-1; the next block starts from p of the last round.
    begin_block(block_ + 1,
                options_.restart == Restart::kUniform
                    ? Distribution(index(clients_), 1.0L / static_cast<long double>(clients_))
                    : p());
    return;
  }
  ++round_;
  set_rates();
  Distribution losses;
  for (std::size_t e = 0; e < experts_.size(); ++e) losses.push_back(learn(e, draws, a, mixed));
  weigh(losses);
}

// Steps 8 and 9 of Algorithm 5 for one expert. Returns its loss.
long double OsmdReference::learn(std::size_t e, const std::vector<int64_t>& draws,
                                 const std::vector<double>& a, const Distribution& q) {
  const auto k = static_cast<long double>(draws.size());
  long double loss = 0;
  std::vector<long double> log_p;
  for (int64_t m = 0; m < clients_; ++m) {
    const long double p = experts_[e][index(m)];
    const auto times = static_cast<long double>(times_in(draws, m));
    long double exponent = 0;
    if (times > 0) {
      const long double scaled = static_cast<long double>(options_.rate_scale) * a[index(m)];
      loss += times * scaled / (k * k * p * q[index(m)]);
      exponent = eta_[e] * (options_.variant == Variant::kReference ? 1 : times) * scaled /
                 (k * k * p * p * q[index(m)]);
    }
    highest_exponent_ = std::max(highest_exponent_, exponent);
    log_p.push_back(std::log(p) + exponent);
  }
  experts_[e] = project_by_sorting(log_p, options_.alpha);
  return loss;
}

// Step 11.
void OsmdReference::weigh(const Distribution& losses) {
  const bool reference = options_.variant == Variant::kReference;
  for (std::size_t e = 0; e < losses.size(); ++e) {
    log_theta_[e] -= gamma_ * losses[e];
    // The authors multiply in double, where what underflows is gone for good.
    if (reference && std::exp(static_cast<double>(log_theta_[e])) == 0) log_theta_[e] = -INFINITY;
  }
  const long double highest = *std::max_element(log_theta_.begin(), log_theta_.end());
  if (std::isinf(highest)) {
    log_theta_.assign(losses.size(), -std::log(static_cast<long double>(losses.size())));
    return;
  }
  long double sum = 0;
  for (long double& log : log_theta_) sum += std::exp(log -= highest);
  for (long double& log : log_theta_) log -= std::log(sum);
}

}  // namespace hanse
