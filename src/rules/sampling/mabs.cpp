#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/baselines.hpp"
#include "urn_sampler.hpp"

namespace hanse {

void check_baseline(const BaselineOptions& options, int64_t clients, int64_t per_round,
                    bool needs_horizon) {
  const bool given = options.mixing != BaselineOptions::kAuto;
  if (given && !(options.mixing > 0 && options.mixing <= 1)) {
    throw InvalidArgument(fmt::format("mixing {} is outside (0, 1]", options.mixing),
                          "sampler.mixing");
  }
  if (!(options.rate >= 0 || options.rate == BaselineOptions::kAuto)) {
    throw InvalidArgument(fmt::format("rate {} is below 0", options.rate), "sampler.rate");
  }
  if (needs_horizon && options.horizon < 1) {
    throw InvalidArgument("the sampler's rates depend on the number of rounds", "sampler.horizon",
                          "set sampler.horizon");
  }
  if (options.bound == BoundSource::kGiven && !(options.bound_value > 0)) {
    throw InvalidArgument(fmt::format("the bound {} is not above 0", options.bound_value),
                          "sampler.a-max");
  }
  check_per_round(per_round, clients, options.replacement);
}

namespace {

constexpr double kMixing = 0.4;     // of the paper and of the reference
constexpr double kMostAbove = 600;  // e^600 times any number of rows is finite

// A row is w_i e^-shift and log w_i.
class Mabs final : public UrnSampler {
 public:
  Mabs(const BaselineOptions& options, int64_t clients, int64_t per_round)
      : UrnSampler(clients, per_round, options.replacement, Urn(clients, 2)),
        options_(options),
        mixing_(options.mixing == BaselineOptions::kAuto ? kMixing : options.mixing),
        bound_(options.bound == BoundSource::kGiven ? options.bound_value : 0),
        awaits_bound_(needs_bound() && options.bound == BoundSource::kFirstRound) {}

  bool needs_foresight() const override { return awaits_bound_; }
  void foresee(std::span<const double> a) override;
  void observe(const Draw& draw, const Feedback& feedback) override;
  void save(State& state) const override;
  void load(const State& state) override;

 protected:
  UrnLaw law() const override;

 private:
  bool needs_bound() const { return options_.rate == BaselineOptions::kAuto; }
  // What A is the mean of.
  double moment(double a) const {
    return options_.variant == BaselineOptions::Variant::kPaper ? a * a : a;
  }
  double rate() const;
  void shift_to(double shift);

  BaselineOptions options_;
  double mixing_;
  double bound_;  // A; 0: not known, or every gradient so far was zero
  bool awaits_bound_;
  double shift_ = 0;  // the largest log-weight or not far below, so that no exp overflows
};

UrnLaw Mabs::law() const {
  const double alike = std::exp(-shift_);  // of a client without a row: log w = 0
  const double total = urn_.sum(0) + static_cast<double>(urn_.alike()) * alike;
  const double share = (1 - mixing_) / total;
  const double even = mixing_ / static_cast<double>(clients());
  return {.coefficients = {share, 0}, .individual = even, .common = even + share * alike};
}

void Mabs::foresee(std::span<const double> a) {
  double sum = 0;
  for (const double x : a) sum += moment(x);
  bound_ = sum / static_cast<double>(a.size());
  awaits_bound_ = false;
}

// delta, with eta = mixing.
double Mabs::rate() const {
  if (!needs_bound()) return options_.rate;
  if (!(bound_ > 0)) return 0;
  const auto m = static_cast<double>(clients());
  const auto t = static_cast<double>(options_.horizon);
  return mixing_ * mixing_ * std::sqrt(std::log(m) / (t * bound_)) / (m * m * std::sqrt(m));
}

void Mabs::observe(const Draw& draw, const Feedback& feedback) {
  check_feedback(draw, feedback.a);
  if (draw.everyone || draw.size() == 0) return;
  if (options_.bound == BoundSource::kRunning) {
    const double most = *std::max_element(feedback.a.begin(), feedback.a.end());
    bound_ = std::max(bound_, moment(most));
  }
  const double delta = rate() * options_.rate_scale;
  const UrnLaw before = law();
  std::vector<int64_t> slots;
  double highest = shift_;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const double p = urn_.mass(before, draw.clients[i]);
    const auto times = static_cast<double>(draw.counts[i]);
    const double exponent = times * delta * feedback.a[i] / (p * p * draw.probabilities[i]);
    const int64_t slot = urn_.slot_or_add(draw.clients[i]);
    const auto row = urn_.row(slot);
    row[1] += std::min(exponent, 1e300);
    row[0] = std::exp(std::min(row[1] - shift_, kMostAbove));
    highest = std::max(highest, row[1]);
    slots.push_back(slot);
  }
  if (highest - shift_ > kMostAbove) {
    shift_to(highest);
  } else {
    urn_.refresh(slots);
  }
}

void Mabs::shift_to(double shift) {
  shift_ = shift;
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) {
    const auto row = urn_.row(slot);
    row[0] = std::exp(row[1] - shift_);
  }
  urn_.refresh_all();
}

void Mabs::save(State& state) const {
  UrnSampler::save(state);
  state.put("bound", bound_);
  state.put("awaits_bound", int64_t{awaits_bound_});
  state.put("shift", shift_);
}

void Mabs::load(const State& state) {
  UrnSampler::load(state);
  bound_ = state.get_one<double>("bound");
  awaits_bound_ = state.get_one<int64_t>("awaits_bound") != 0;
  shift_ = state.get_one<double>("shift");
}

}  // namespace

std::unique_ptr<ClientSampler> make_mabs_sampler(const BaselineOptions& options, int64_t clients,
                                                 int64_t per_round) {
  check_baseline(options, clients, per_round, options.rate == BaselineOptions::kAuto);
  return std::make_unique<Mabs>(options, clients, per_round);
}

}  // namespace hanse
