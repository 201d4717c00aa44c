#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "osmd_experts.hpp"
#include "urn_sampler.hpp"

namespace hanse {

int64_t osmd_experts(double alpha, int64_t clients, int64_t rounds) {
  if (clients == 1) return 1;
  const double log_m = std::log(static_cast<double>(clients));
  const double spread = 4 * (log_m - std::log(alpha)) / log_m * static_cast<double>(rounds - 1);
  return static_cast<int64_t>(std::ceil(std::log2(1 + spread) / 2)) + 1;  // eq. 23
}

OsmdRates osmd_rates(const LearningOptions& options, int64_t clients, int64_t per_round,
                     int64_t rounds, double a_max) {
  const auto m = static_cast<double>(clients);
  const auto k = static_cast<double>(per_round);
  const auto t = static_cast<double>(rounds);
  const double floor = options.alpha / m;
  const bool reference = options.variant == Variant::kReference;
  const bool corrected = options.variant == Variant::kCorrected;
  OsmdRates rates;
  const double unit = (reference ? k / 2 : 1) * k * floor * floor * floor / a_max;
  if (options.kind == OsmdKind::kFixed) {  // eq. 20
    const double spread = 4 * options.variation * std::log(m / options.alpha);
    rates.eta = {options.eta.value_or(unit * std::sqrt((2 * std::log(m) + spread) / t))};
    return rates;
  }
  const double smallest = unit * std::sqrt(2 * std::log(m) / t);
  const int64_t experts = osmd_experts(options.alpha, clients, rounds);
  for (int64_t e = 0; e < experts; ++e)
    rates.eta.push_back(std::ldexp(smallest, static_cast<int>(e)));
  rates.gamma = options.gamma.value_or(corrected ? k * floor * floor / a_max * std::sqrt(8 / t)
                                                 : floor * std::sqrt(8 * k / (t * a_max)));
  return rates;
}

namespace {

constexpr double kLeast = 1e-300;  // stands for an initial probability of 0

class Osmd final : public BoundedSampler {
 public:
  Osmd(const LearningOptions& options, int64_t clients, int64_t per_round,
       std::span<const double> initial);

  std::vector<double> expert_weights() const override;
  void observe(const Draw& draw, const Feedback& feedback) override;

 protected:
  UrnLaw law() const override;
  void visit(StateFields& fields) override;

 private:
  bool needs_bound() const { return options_.kind != OsmdKind::kFixed || !options_.eta; }
  int64_t horizon() const {  // T of the block in progress
    return options_.kind == OsmdKind::kDoubling
               ? static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(updates_ + 1)))
               : options_.horizon;
  }
  void start(std::size_t count);
  void restart();
  double raise(std::size_t e, double eta, const Draw& draw, std::span<const double> a,
               std::span<const int64_t> slots, std::vector<int64_t>& changed);
  void weigh_experts(std::span<const double> losses, double gamma);

  OsmdExperts experts_;
  std::vector<double> log_theta_;  // [E]
  int64_t updates_ = 0;
};

Osmd::Osmd(const LearningOptions& options, int64_t clients, int64_t per_round,
           std::span<const double> initial)
    : BoundedSampler(options, clients, per_round, Urn(clients, 2, !initial.empty()), "a_max"),
      experts_(urn_, options.alpha) {
  awaits_bound_ = options.bound == BoundSource::kFirstRound && needs_bound();
  start(options.kind == OsmdKind::kFixed
            ? 1
            : static_cast<std::size_t>(osmd_experts(options.alpha, clients, horizon())));
  if (initial.empty()) return;
  for (int64_t client = 0; client < clients; ++client) {
    const double p = std::max(initial[static_cast<std::size_t>(client)], kLeast);
    for (std::size_t e = 0; e < experts_.size(); ++e) experts_.set(e, client, p);
  }
  experts_.refresh_all();
}

// Starts all experts at the uniform distribution, for clients without a row; theta as in step 3.
void Osmd::start(std::size_t count) {
  experts_.start(count);
  log_theta_.resize(count);
  const auto n = static_cast<double>(count);
  for (std::size_t e = 0; e < count; ++e) {
    const auto rank = static_cast<double>(e + 1);
    log_theta_[e] = std::log((1 + 1 / n) / (rank * (rank + 1)));
  }
}

std::vector<double> Osmd::expert_weights() const {
  std::vector<double> theta(log_theta_.size());
  std::transform(log_theta_.begin(), log_theta_.end(), theta.begin(),
                 [](double log) { return std::exp(log); });
  return theta;
}

UrnLaw Osmd::law() const {
  const auto theta = expert_weights();
  const std::size_t n = theta.size();
  UrnLaw law{std::vector<double>(2 * n)};
  for (std::size_t e = 0; e < n; ++e) {
    law.coefficients[e] = theta[e] * experts_.scale(e);
    law.coefficients[n + e] = -theta[e] * experts_.floor();
    law.individual += theta[e] * experts_.floor();
    law.common += theta[e] * experts_.level(e);
  }
  return law;
}

void Osmd::observe(const Draw& draw, const Feedback& feedback) {
  const std::vector<double> a = heard(feedback.a);
  check_feedback(draw, a);
  if (draw.everyone || draw.size() == 0) return;
  if (options_.bound == BoundSource::kRunning) {
    bound_ = std::max(bound_, *std::max_element(a.begin(), a.end()));
  }
  if (options_.kind == OsmdKind::kDoubling &&
      std::has_single_bit(static_cast<uint64_t>(updates_ + 2))) {
    // The block's last round: Algorithm 5 learns in t = 1, ..., T-1.
    ++updates_;
    restart();
    return;
  }
  const bool knows_rates = bound_ > 0 || !needs_bound();  // else every gradient so far was zero
  const OsmdRates rates = osmd_rates(options_, clients(), draw.draws(), horizon(),
                                     knows_rates && bound_ > 0 ? bound_ : 1);
  const auto slots = experts_.slots_of(draw);
  std::vector<int64_t> changed = slots;
  std::vector<double> losses(experts_.size());
  for (std::size_t e = 0; knows_rates && e < experts_.size(); ++e) {
    losses[e] = raise(e, rates.eta[e], draw, a, slots, changed);
  }
  experts_.project(std::move(changed));
  if (knows_rates) weigh_experts(losses, rates.gamma);
  ++updates_;
}

// Step 3 of Algorithm 2 for one expert; its rows' places in the tree are due. Returns l_e (eq. 6).
double Osmd::raise(std::size_t e, double eta, const Draw& draw, std::span<const double> a,
                   std::span<const int64_t> slots, std::vector<int64_t>& changed) {
  const auto k = static_cast<double>(draw.draws());
  const bool once = options_.variant == Variant::kReference;
  double loss = 0;
  std::vector<double> raised(slots.size());  // log p~
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const double p = experts_.probability(e, slots[i]);
    const double share = options_.rate_scale * a[i] / (k * k * p * draw.probabilities[i]);
    const auto times = static_cast<double>(draw.counts[i]);
    loss += times * share;
    const double exponent = eta * (once ? 1 : times) * share / p;  // eq. 7
    raised[i] = std::log(p) + std::min(exponent, 1e300);
  }
  experts_.raise(e, raised, slots, changed);
  return loss;
}

// Step 11 of Algorithm 5.
void Osmd::weigh_experts(std::span<const double> losses, double gamma) {
  const bool reference = options_.variant == Variant::kReference;
  constexpr double kGone = -std::numeric_limits<double>::infinity();
  for (std::size_t e = 0; e < losses.size(); ++e) {
    // Times a gamma of 0, an infinite loss would be no number.
    log_theta_[e] -= gamma * std::min(losses[e], std::numeric_limits<double>::max());
    // The authors multiply the weights themselves: what underflows never comes back.
    if (reference && std::exp(log_theta_[e]) == 0) log_theta_[e] = kGone;
  }
  const double highest = *std::max_element(log_theta_.begin(), log_theta_.end());
  if (highest == kGone) {
    log_theta_.assign(losses.size(), -std::log(static_cast<double>(losses.size())));
    return;
  }
  double total = 0;
  for (double& log : log_theta_) total += std::exp(log -= highest);
  for (double& log : log_theta_) log -= std::log(total);
}

// Algorithm 6: a new block, twice as long, starts from the last distribution or from uniform.
void Osmd::restart() {
  const UrnLaw last = law();
  std::vector<double> p;
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
    p.push_back(std::max(urn_.mass(last, urn_.client_of(slot)), kLeast));
  }
  start(static_cast<std::size_t>(osmd_experts(options_.alpha, clients(), horizon())));
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    if (options_.restart == Restart::kLast) experts_.set_common(e, last.common);
    for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
      experts_.set(e, slot,
                   options_.restart == Restart::kUniform ? experts_.common(e)
                                                         : p[static_cast<std::size_t>(slot)]);
    }
  }
  experts_.refresh_all();
  awaits_bound_ =
      options_.bound == BoundSource::kFirstRound && options_.variant == Variant::kReference;
}

void Osmd::visit(StateFields& fields) {
  BoundedSampler::visit(fields);
  experts_.visit(fields);
  fields.all("log_theta", log_theta_);
  fields.one("updates", updates_);
}

void check_options(const LearningOptions& options) {
  if (!(options.alpha > 0 && options.alpha <= 1)) {
    throw InvalidArgument(fmt::format("alpha {} is outside (0, 1]", options.alpha),
                          "sampler.alpha");
  }
  const bool needs_horizon =
      options.kind == OsmdKind::kAdaptive || (options.kind == OsmdKind::kFixed && !options.eta);
  if (needs_horizon && options.horizon < 1) {
    throw InvalidArgument("the learning rates depend on the number of rounds", "sampler.horizon",
                          "set sampler.horizon, or use osmd-doubling");
  }
  if (options.bound == BoundSource::kGiven && !(options.a_max > 0)) {
    throw InvalidArgument(fmt::format("a-max {} is not above 0", options.a_max), "sampler.a-max");
  }
}

}  // namespace

std::unique_ptr<ClientSampler> make_osmd_sampler(const LearningOptions& options, int64_t clients,
                                                 int64_t per_round,
                                                 std::span<const double> initial) {
  check_options(options);
  return std::make_unique<Osmd>(options, clients, per_round, initial);
}

}  // namespace hanse
