// Samplers by multi-armed bandits: MABS and VRB.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

constexpr double kMixing = 0.4;           // of MABS's paper, and of both references
constexpr double kMostAbove = 600;        // MABS: e^600 times any number of rows is finite
constexpr double kReferenceMargin = 1.5;  // VRB: of L over the largest squared loss

// `needs_horizon`: an option without a value depends on it.
void check_options(const LearningOptions& options, bool needs_horizon) {
  if (options.mixing && !(*options.mixing > 0 && *options.mixing <= 1)) {
    throw InvalidArgument(fmt::format("mixing {} is outside (0, 1]", *options.mixing),
                          "sampler.mixing");
  }
  if (options.rate && !(*options.rate >= 0)) {
    throw InvalidArgument(fmt::format("rate {} is below 0", *options.rate), "sampler.rate");
  }
  if (needs_horizon && options.horizon < 1) {
    throw InvalidArgument("the sampler's rates depend on the number of rounds", "sampler.horizon",
                          "set sampler.horizon");
  }
  if (options.bound == BoundSource::kGiven && !(options.a_max > 0)) {
    throw InvalidArgument(fmt::format("the bound {} is not above 0", options.a_max),
                          "sampler.a-max");
  }
}

// Draws by weights, a row's first number, mixed with the uniform distribution.
class WeightSampler : public BoundedSampler {
 protected:
  WeightSampler(const LearningOptions& options, int64_t clients, int64_t per_round)
      : BoundedSampler(options, clients, per_round, Urn(clients, 2), "bound"),
        mixing_(options.mixing.value_or(kMixing)) {}

  virtual double common_weight() const = 0;  // of a client without a row
  UrnLaw law() const final {
    const double alike = common_weight();
    const double total = urn_.sum(0) + static_cast<double>(urn_.alike()) * alike;
    const double share = total > 0 ? (1 - mixing_) / total : 0;
    const double even = (total > 0 ? mixing_ : 1) / static_cast<double>(clients());
    return {.coefficients = {share, 0}, .individual = even, .common = even + share * alike};
  }

  double mixing_;  // share of uniform draws
};

// A row has w_i e^-shift and log w_i.
class Mabs final : public WeightSampler {
 public:
  Mabs(const LearningOptions& options, int64_t clients, int64_t per_round)
      : WeightSampler(options, clients, per_round) {
    awaits_bound_ = needs_bound() && options.bound == BoundSource::kFirstRound;
  }

  void observe(const Draw& draw, const Feedback& feedback) override;

 protected:
  double common_weight() const override { return std::exp(-shift_); }  // log w = 0
  // A of the paper.
  double bound_of(std::span<const double> a) const override {
    double sum = 0;
    for (const double x : a) sum += moment(x);
    return sum / static_cast<double>(a.size());
  }
  void visit(StateFields& fields) override {
    BoundedSampler::visit(fields);
    fields.one("shift", shift_);
  }

 private:
  bool needs_bound() const { return !options_.rate; }
  // A is the mean of this.
  double moment(double a) const { return options_.variant == Variant::kReference ? a : a * a; }
  double rate() const;
  void shift_to(double shift);

  double shift_ = 0;  // the largest log-weight or not far below, so that no exp overflows
};

// delta, with eta = mixing.
double Mabs::rate() const {
  if (options_.rate) return *options_.rate;
  if (!(bound_ > 0)) return 0;
  const auto m = static_cast<double>(clients());
  const auto t = static_cast<double>(options_.horizon);
  return mixing_ * mixing_ * std::sqrt(std::log(m) / (t * bound_)) / (m * m * std::sqrt(m));
}

void Mabs::observe(const Draw& draw, const Feedback& feedback) {
  const std::vector<double> a = heard(feedback.a);
  check_feedback(draw, a);
  if (draw.everyone || draw.size() == 0) return;
  if (options_.bound == BoundSource::kRunning) {
    const double most = *std::max_element(a.begin(), a.end());
    bound_ = std::max(bound_, moment(most));
  }
  const double delta = rate() * options_.rate_scale;
  const UrnLaw before = law();
  std::vector<int64_t> slots;
  double highest = shift_;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const double p = urn_.mass(before, draw.clients[i]);
    const auto times = static_cast<double>(draw.counts[i]);
    const double exponent = times * delta * a[i] / (p * p * draw.probabilities[i]);
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

// A row has sqrt(w_i + gamma) and w_i; the bound is L.
class Vrb final : public WeightSampler {
 public:
  Vrb(const LearningOptions& options, int64_t clients, int64_t per_round)
      : WeightSampler(options, clients, per_round) {
    awaits_bound_ = options.bound == BoundSource::kFirstRound && !by_losses();
    if (options.mixing || by_losses()) return;
    mixing_ = std::min(
        1.0, std::cbrt(static_cast<double>(clients) / static_cast<double>(options.horizon)));
  }

  void observe(const Draw& draw, const Feedback& feedback) override;

 protected:
  double common_weight() const override { return std::sqrt(gamma()); }  // w = 0
  void set_bound(double bound) override;

 private:
  bool by_losses() const { return options_.variant == Variant::kReference; }
  bool running() const {
    return options_.bound == BoundSource::kRunning ||
           (options_.bound == BoundSource::kFirstRound && by_losses());
  }
  double gamma() const { return bound_ * static_cast<double>(clients()) / mixing_; }
  std::vector<double> squares(const Draw& draw, const Feedback& feedback) const;
  void set_root(int64_t slot) {
    const auto row = urn_.row(slot);
    row[0] = std::sqrt(row[1] + gamma());
  }
};

void Vrb::set_bound(double bound) {
  bound_ = bound;
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) set_root(slot);
  urn_.refresh_all();
}

// l_i^2 of the participants.
std::vector<double> Vrb::squares(const Draw& draw, const Feedback& feedback) const {
  std::vector<double> squares = heard(by_losses() ? feedback.losses : feedback.a);
  if (!by_losses()) check_feedback(draw, squares);
  for (double& one : squares) one *= by_losses() ? one : 1;
  return squares;
}

void Vrb::observe(const Draw& draw, const Feedback& feedback) {
  const auto seen = squares(draw, feedback);
  if (draw.everyone || draw.size() == 0) return;
  std::vector<int64_t> slots;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const int64_t slot = urn_.slot_or_add(draw.clients[i]);
    urn_.row(slot)[1] += static_cast<double>(draw.counts[i]) * seen[i] / draw.probabilities[i];
    set_root(slot);
    slots.push_back(slot);
  }
  const double most =
      *std::max_element(seen.begin(), seen.end()) * (by_losses() ? kReferenceMargin : 1);
  if (running() && most > bound_) {
    set_bound(most);
  } else {
    urn_.refresh(slots);
  }
}

}  // namespace

std::unique_ptr<ClientSampler> make_mabs_sampler(const LearningOptions& options, int64_t clients,
                                                 int64_t per_round) {
  check_options(options, !options.rate);
  return std::make_unique<Mabs>(options, clients, per_round);
}

std::unique_ptr<ClientSampler> make_vrb_sampler(const LearningOptions& options, int64_t clients,
                                                int64_t per_round) {
  check_options(options, !options.mixing && options.variant != Variant::kReference);
  return std::make_unique<Vrb>(options, clients, per_round);
}

}  // namespace hanse
