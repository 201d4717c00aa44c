#include "hanse/protocol/participation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace hanse {

Participation::Participation(ClientSampler& sampler, Availability availability,
                             const Federation& federation, FederatedSettings settings,
                             Turnout* turnout)
    : sampler_(sampler),
      availability_(std::move(availability)),
      federation_(federation),
      settings_(std::move(settings)),
      source_(turnout) {}

double Participation::importance(int64_t client) const {
  return settings_.equal_importance ? 1 / static_cast<double>(federation_.clients())
                                    : train_share(federation_, client);
}

void Participation::observe_all(std::vector<double> a) {
  keep();
  sampler_asked_ = sampler_.needs_all_clients();
  if (sampler_asked_) sampler_.observe_all(a);
  a_of_all_ = std::move(a);
}

uint64_t Participation::seed() const { return settings_.sampler_seed.value_or(settings_.seed); }

// Finds out who is there, once a round.
void Participation::begin(int64_t round) {
  if (stream_) return;
  keep();
  if (source_) {
    sampler_.toggle(source_->begin());
  } else if (availability_) {
    sampler_.toggle(availability_(round, seed()));
  }
  stream_.emplace(seed(), Purpose::kSampling, static_cast<uint64_t>(round));
}

std::vector<int64_t> Participation::candidates(int64_t round) {
  if (!sampler_.needs_candidates()) return {};
  begin(round);
  asked_.clients = sampler_.candidates(round, sampler_.per_round(), *stream_);
  return asked_.clients;
}

void Participation::take_candidates(std::span<const double> losses) {
  asked_.losses.assign(losses.begin(), losses.end());
  sampler_.take_candidates(asked_.clients, losses);
}

Draw Participation::draw_round(int64_t round) {
  record_.available = sampler_.available().size();
  return sampler_.draw(round, sampler_.per_round(), *stream_);
}

DrawnClients Participation::dispatch(int64_t call, int64_t n, std::span<const int64_t> changes) {
  sampler_.toggle(changes);
  record_.available = sampler_.available().size();
  RandomStream stream(seed(), Purpose::kSampling, static_cast<uint64_t>(call));
  return {sampler_.draw(call, n, stream), record_.available};
}

const Draw& Participation::draw(int64_t round) {
  record_ = {};
  begin(round);
  if (source_) {
    turnout_ = source_->next(
        round,
        {.draw_round = [&] { return draw_round(round); },
         .dispatch = [&](int64_t call, int64_t n,
                         std::span<const int64_t> changes) { return dispatch(call, n, changes); }});
  } else {
    turnout_ = {.draw = draw_round(round)};
  }
  stream_.reset();
  const bool is_late = take_back();
  shares_.clear();
  for (const int64_t client : drawn().clients) shares_.push_back(train_share(federation_, client));
  if (settings_.regret && !is_late) measure();
  return drawn();
}

// Once a round, before anything of it.
void Participation::keep() {
  if (!source_ || source_->limit() == 0 || std::exchange(has_kept_, true)) return;
  before_ = State();
  save(before_);
  turnout_before_ = turnout_;
}

// Goes back there where the drawn round would end too late.
bool Participation::take_back() {
  if (!std::exchange(has_kept_, false)) return false;
  const double end_s = source_->seconds();
  if (end_s <= source_->limit()) return false;
  load(before_);
  turnout_ = std::move(turnout_before_);
  turnout_.late_s = end_s;
  return true;
}

// l(q) of the probabilities that the round was drawn from, and the least l, over the available.
void Participation::measure() {
  record_.regret = regret_;
  if (drawn().everyone) return;  // nothing was decided
  double probability = 0;        // of the available
  double ratios = 0;             // sum a/p
  double roots = 0;              // sum sqrt(a)
  for (int64_t client = 0; client < sampler_.clients(); ++client) {
    const double a = a_of_all_[static_cast<std::size_t>(client)];
    if (!sampler_.available().contains(client)) continue;
    const double p = sampler_.probability(client);
    probability += p;
    if (a > 0) ratios += a / p;
    roots += std::sqrt(a);
  }
  const auto k = static_cast<double>(drawn().draws());
  record_.variance = probability * ratios / k;
  record_.best = roots * roots / k;
  regret_ += record_.variance - record_.best;
  record_.regret = regret_;
}

void Participation::observe(const Feedback& feedback) {
  if (drawn().size() > 0) record_.estimate = variance_estimate(drawn(), feedback.a);
  sampler_.observe(drawn(), feedback);
  std::vector<int64_t> late;
  std::vector<double> durations;
  for (const UncountedTask& task : turnout_.uncounted) {
    if (task.state != TaskState::kLate) continue;
    late.push_back(task.client);
    durations.push_back(task.seconds());
  }
  if (!late.empty()) sampler_.observe_late(late, durations);
  a_of_all_.clear();
  sampler_asked_ = false;
}

std::span<const double> Participation::a_of_all() const {
  return sampler_asked_ ? a_of_all_ : std::span<const double>();
}

std::string Participation::line(int64_t round) const {
  return fmt::format("{},{},{},{},{},{}\n", round, record_.available,
                     number_or_nothing(record_.estimate), number_or_nothing(record_.variance),
                     number_or_nothing(record_.best), number_or_nothing(record_.regret));
}

void Participation::visit(StateFields& fields) {
  fields.part("sampler", sampler_);
  if (source_) fields.part("turnout", *source_);
  fields.one("regret", regret_);
}

Metrics summarize_probabilities(const ClientSampler& sampler) {
  std::vector<double> p(static_cast<std::size_t>(sampler.clients()));
  double entropy = 0;
  for (std::size_t client = 0; client < p.size(); ++client) {
    p[client] = sampler.probability(static_cast<int64_t>(client));
    if (p[client] > 0) entropy -= p[client] * std::log(p[client]);
  }
  const auto quantile = [&](double q) {
    const auto rank = std::ceil(q * static_cast<double>(p.size()));
    const auto at = p.begin() + std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(rank) - 1);
    std::nth_element(p.begin(), at, p.end());
    return *at;
  };
  return {{"sampling_entropy", entropy},   {"sampling_min", quantile(0)},
          {"sampling_p10", quantile(0.1)}, {"sampling_median", quantile(0.5)},
          {"sampling_p90", quantile(0.9)}, {"sampling_max", quantile(1)}};
}

}  // namespace hanse
