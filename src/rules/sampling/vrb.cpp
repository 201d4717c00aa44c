#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/sampling/baselines.hpp"
#include "urn_sampler.hpp"

namespace hanse {

namespace {

using Variant = BaselineOptions::Variant;

constexpr double kReferenceMixing = 0.4;
constexpr double kReferenceMargin = 1.5;  // of L over the largest squared loss

double mixing_of(const BaselineOptions& options, int64_t clients) {
  if (options.mixing != BaselineOptions::kAuto) return options.mixing;
  if (options.variant == Variant::kReference) return kReferenceMixing;
  return std::min(1.0,
                  std::cbrt(static_cast<double>(clients) / static_cast<double>(options.horizon)));
}

// A row is sqrt(w_i + gamma) and w_i.
class Vrb final : public UrnSampler {
 public:
  Vrb(const BaselineOptions& options, int64_t clients, int64_t per_round)
      : UrnSampler(clients, per_round, options.replacement, Urn(clients, 2)),
        options_(options),
        mixing_(mixing_of(options, clients)),
        bound_(options.bound == BoundSource::kGiven ? options.bound_value : 0),
        awaits_bound_(options.bound == BoundSource::kFirstRound && !by_losses()) {}

  bool needs_foresight() const override { return awaits_bound_; }
  void foresee(std::span<const double> a) override;
  void observe(const Draw& draw, const Feedback& feedback) override;
  void save(State& state) const override;
  void load(const State& state) override;

 protected:
  UrnLaw law() const override;

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
  void set_bound(double bound);

  BaselineOptions options_;
  double mixing_;
  double bound_;  // L
  bool awaits_bound_;
};

UrnLaw Vrb::law() const {
  const double alike = std::sqrt(gamma());  // of a client without a row: w = 0
  const double total = urn_.sum(0) + static_cast<double>(urn_.alike()) * alike;
  const double share = total > 0 ? (1 - mixing_) / total : 0;
  const double even = (total > 0 ? mixing_ : 1) / static_cast<double>(clients());
  return {.coefficients = {share, 0}, .individual = even, .common = even + share * alike};
}

void Vrb::foresee(std::span<const double> a) {
  set_bound(a.empty() ? 0 : *std::max_element(a.begin(), a.end()));
  awaits_bound_ = false;
}

void Vrb::set_bound(double bound) {
  bound_ = bound;
  for (int64_t slot = 0; slot < urn_.rows(); ++slot) set_root(slot);
  urn_.refresh_all();
}

// l_i^2 of the participants.
std::vector<double> Vrb::squares(const Draw& draw, const Feedback& feedback) const {
  if (!by_losses()) {
    check_feedback(draw, feedback.a);
    return {feedback.a.begin(), feedback.a.end()};
  }
  std::vector<double> squares;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    squares.push_back(feedback.losses[i] * feedback.losses[i]);
    if (std::isfinite(squares.back())) continue;
    throw InvalidArgument(
        fmt::format("the loss of client {} is {}", draw.clients[i], feedback.losses[i]), "feedback",
        "the sampler needs its square");
  }
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

void Vrb::save(State& state) const {
  UrnSampler::save(state);
  state.put("bound", bound_);
  state.put("awaits_bound", int64_t{awaits_bound_});
}

void Vrb::load(const State& state) {
  UrnSampler::load(state);
  bound_ = state.get_one<double>("bound");
  awaits_bound_ = state.get_one<int64_t>("awaits_bound") != 0;
}

}  // namespace

std::unique_ptr<ClientSampler> make_vrb_sampler(const BaselineOptions& options, int64_t clients,
                                                int64_t per_round) {
  check_baseline(options, clients, per_round,
                 options.mixing == BaselineOptions::kAuto && options.variant == Variant::kPaper);
  return std::make_unique<Vrb>(options, clients, per_round);
}

}  // namespace hanse
