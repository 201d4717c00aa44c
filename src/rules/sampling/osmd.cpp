#include "hanse/rules/sampling/osmd.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "osmd_experts.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

constexpr double kLeast = 1e-300;  // stands for an initial probability of 0

class Osmd final : public UrnSampler {
 public:
  Osmd(const OsmdOptions& options, int64_t clients, int64_t per_round,
       std::span<const double> initial);

  std::vector<double> expert_weights() const override;
  bool needs_foresight() const override { return awaits_bound_; }
  void foresee(std::span<const double> a) override;
  void observe(const Draw& draw, const Feedback& feedback) override;
  void save(State& state) const override;
  void load(const State& state) override;

 protected:
  UrnLaw law() const override;

 private:
  bool needs_bound() const { return options_.kind != OsmdKind::kFixed || options_.eta < 0; }
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

  OsmdOptions options_;
  OsmdExperts experts_;
  std::vector<double> log_theta_;  // [E]
  double a_max_;
  bool awaits_bound_;
  int64_t updates_ = 0;
};

Osmd::Osmd(const OsmdOptions& options, int64_t clients, int64_t per_round,
           std::span<const double> initial)
    : UrnSampler(clients, per_round, options.replacement, Urn(clients, 2, !initial.empty())),
      options_(options),
      experts_(urn_, options.alpha),
      a_max_(options.bound == BoundSource::kGiven ? options.a_max : 0),
      awaits_bound_(options.bound == BoundSource::kFirstRound && needs_bound()) {
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

// All experts at the uniform distribution, for clients without a row; theta as in step 3.
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

void Osmd::foresee(std::span<const double> a) {
  a_max_ = a.empty() ? 0 : *std::max_element(a.begin(), a.end());
  awaits_bound_ = false;
}

void Osmd::observe(const Draw& draw, const Feedback& feedback) {
  check_feedback(draw, feedback.a);
  if (draw.everyone || draw.size() == 0) return;
  if (options_.bound == BoundSource::kRunning) {
    a_max_ = std::max(a_max_, *std::max_element(feedback.a.begin(), feedback.a.end()));
  }
  if (options_.kind == OsmdKind::kDoubling &&
      std::has_single_bit(static_cast<uint64_t>(updates_ + 2))) {
    // The block's last round: Algorithm 5 learns in t = 1, ..., T-1.
    ++updates_;
    restart();
    return;
  }
  const bool knows_rates = a_max_ > 0 || !needs_bound();  // else every gradient so far was zero
  const OsmdRates rates = osmd_rates(options_, clients(), per_round(), horizon(),
                                     knows_rates && a_max_ > 0 ? a_max_ : 1);
  const auto slots = experts_.slots_of(draw);
  std::vector<int64_t> changed = slots;
  std::vector<double> losses(experts_.size());
  for (std::size_t e = 0; knows_rates && e < experts_.size(); ++e) {
    losses[e] = raise(e, rates.eta[e], draw, feedback.a, slots, changed);
  }
  experts_.project(std::move(changed));
  if (knows_rates) weigh_experts(losses, rates.gamma);
  ++updates_;
}

// Step 3 of Algorithm 2 for one expert; its rows' places in the tree are due. Returns l_e (eq. 6).
double Osmd::raise(std::size_t e, double eta, const Draw& draw, std::span<const double> a,
                   std::span<const int64_t> slots, std::vector<int64_t>& changed) {
  const auto k = static_cast<double>(draw.draws());
  const bool once = options_.variant == OsmdOptions::Variant::kReference;
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
  const bool reference = options_.variant == OsmdOptions::Variant::kReference;
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
    if (!options_.restart_uniform) experts_.set_common(e, last.common);
    for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
      experts_.set(
          e, slot,
          options_.restart_uniform ? experts_.common(e) : p[static_cast<std::size_t>(slot)]);
    }
  }
  experts_.refresh_all();
  awaits_bound_ = options_.bound == BoundSource::kFirstRound &&
                  options_.variant == OsmdOptions::Variant::kReference;
}

void Osmd::save(State& state) const {
  UrnSampler::save(state);
  experts_.save(state);
  state.put("log_theta", std::span<const double>(log_theta_));
  state.put("a_max", a_max_);
  state.put("awaits_bound", int64_t{awaits_bound_});
  state.put("updates", updates_);
}

void Osmd::load(const State& state) {
  UrnSampler::load(state);
  experts_.load(state);
  log_theta_ = state.get<double>("log_theta");
  a_max_ = state.get_one<double>("a_max");
  awaits_bound_ = state.get_one<int64_t>("awaits_bound") != 0;
  updates_ = state.get_one<int64_t>("updates");
}

void check_options(const OsmdOptions& options, int64_t clients, int64_t per_round) {
  if (!(options.alpha > 0 && options.alpha <= 1)) {
    throw InvalidArgument(fmt::format("alpha {} is outside (0, 1]", options.alpha),
                          "sampler.alpha");
  }
  const bool needs_horizon =
      options.kind == OsmdKind::kAdaptive || (options.kind == OsmdKind::kFixed && options.eta < 0);
  if (needs_horizon && options.horizon < 1) {
    throw InvalidArgument("the learning rates depend on the number of rounds", "sampler.horizon",
                          "set sampler.horizon, or use osmd-doubling");
  }
  if (options.bound == BoundSource::kGiven && !(options.a_max > 0)) {
    throw InvalidArgument(fmt::format("a-max {} is not above 0", options.a_max), "sampler.a-max");
  }
  check_per_round(per_round, clients, options.replacement);
}

}  // namespace

std::unique_ptr<ClientSampler> make_osmd_sampler(const OsmdOptions& options, int64_t clients,
                                                 int64_t per_round,
                                                 std::span<const double> initial) {
  check_options(options, clients, per_round);
  return std::make_unique<Osmd>(options, clients, per_round, initial);
}

}  // namespace hanse
