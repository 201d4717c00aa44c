#include "federated/server.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "federated/divergence.hpp"
#include "hanse/base/index.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Buffers move to the participants' mean, by the coefficients of their updates and without the
// optimizer: a mean of variances stays a variance.
void average_buffers(std::span<float> buffers, std::span<const float> update, double coefficients) {
  if (coefficients <= 0) return;
  const auto scale = static_cast<float>(1 / coefficients);
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] += scale * update[i];
}

void require_finite(std::span<const double> losses, std::span<const int64_t> clients,
                    int64_t round) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (std::isfinite(losses[i])) continue;
    throw diverged("the model's loss on a client's samples is not finite", clients[i], round);
  }
}

// Steps what lies between the entries that stand still.
void step_moving(ServerOptimizer& optimizer, const std::vector<RoundPart*>& acting, double rate,
                 int64_t begin, std::span<float> theta, std::span<float> update) {
  const int64_t end = begin + std::ssize(theta);
  int64_t at = begin;
  const auto step_to = [&](int64_t stop) {
    const auto first = static_cast<std::size_t>(at - begin);
    const auto size = static_cast<std::size_t>(std::max<int64_t>(0, stop - at));
    if (size == 0) return;
    optimizer.step(theta.subspan(first, size), update.subspan(first, size), rate, at);
  };
  for (const RoundPart* part : acting) {
    for (const RowPart& still : part->still()) {
      step_to(std::min(still.begin, end));
      at = std::clamp(still.end, at, end);
    }
  }
  step_to(end);
}

}  // namespace

Server::Server(const FederatedTrainer::Parts& parts, const FederatedSettings& settings,
               const std::vector<RoundPart*>& acting)
    : parts_(parts),
      settings_(settings),
      acting_(acting),
      sent_(parts.model),
      participation_(*parts.sampler, parts.availability, parts.federation, settings, parts.turnout),
      mixed_loss_(kNothing) {}

// a_i = lambda_i^2 |g_i|^2 from |theta_i - theta|^2.
double Server::feedback(int64_t client, double importance, double squared_norm,
                        int64_t made) const {
  const int64_t samples = parts_.federation.train(client).size();
  const double scale = parts_.update.sends_direction()  // |g_i|^2 itself
                           ? 1
                           : parts_.update.feedback_scale(round_, samples, made);
  return importance * importance * squared_norm * scale;
}

void Server::observe_all(std::vector<double> squared_steps, int64_t round) {
  round_ = round;
  for (std::size_t client = 0; client < squared_steps.size(); ++client) {
    const auto id = static_cast<int64_t>(client);
    squared_steps[client] = feedback(id, participation_.importance(id), squared_steps[client], 0);
  }
  participation_.observe_all(std::move(squared_steps));
}

std::vector<int64_t> Server::candidates(int64_t round) {
  round_ = round;
  if (measured_ == round) return {};
  return participation_.candidates(round);
}

void Server::take_candidates(std::span<const double> losses) {
  require_finite(losses, participation_.asked_losses().clients, round_);
  participation_.take_candidates(losses);
  measured_ = round_;
}

const RoundTurnout& Server::draw(int64_t round) {
  round_ = round;
  has_weight_ = true;
  mixed_loss_ = kNothing;
  directions_.skip();
  const Draw& draw = participation_.draw(round);
  samples_.clear();
  for (const int64_t client : draw.clients) {
    samples_.push_back(static_cast<double>(parts_.federation.train(client).size()));
  }
  return participation_.turnout();
}

std::vector<double> Server::importances() const {
  std::vector<double> importances;
  for (const int64_t client : participation_.drawn().clients) {
    importances.push_back(participation_.importance(client));
  }
  return importances;
}

void Server::take_losses(std::vector<double> losses) {
  losses_ = std::move(losses);
  require_finite(losses_, participation_.drawn().clients, round_);
}

// What is known of the participants, in the draw's order.
RoundReport Server::report(const Weighable& trained) const {
  AggregatorNeeds needs = parts_.aggregator.needs();
  const Draw& draw = participation_.drawn();
  needs.gram = needs.gram || needs.rejects;  // where attackers forge, there is one
  return only_told(RoundReport{.round = round_,
                               .clients = draw.clients,
                               .lambda = participation_.shares(),
                               .draw_weights = draw.weights,
                               .losses = losses_,
                               .samples = samples_,
                               .norms = trained.norms,
                               .gram = trained.gram,
                               .rates = trained.statistics,
                               .distances = trained.statistics,
                               .staleness = participation_.turnout().times.staleness,
                               .durations = participation_.turnout().times.durations},
                   needs);
}

std::vector<int64_t> Server::absent() const {
  return parts_.aggregator.absent(round_, participation_.drawn().clients);
}

Mix Server::trial(const Weighable& trained) {
  State before;
  parts_.aggregator.save(before);
  Mix mix = parts_.aggregator.mix(report(trained));
  parts_.aggregator.load(before);
  return mix;
}

Mix Server::mix(const Weighable& trained) {
  const RoundReport report = this->report(trained);
  if (report.clients.empty()) return {};  // nobody was there
  const AggregatorNeeds needs = parts_.aggregator.needs();
  const std::size_t absent = this->absent().size();
  Mix mix = parts_.aggregator.mix(report);
  for (RoundPart* part : acting_) part->answered(report, absent, mix);
  std::vector<double>& c = mix.coefficients;
  if (needs.directions) directions_.add(round_, report.clients, report.gram, report.rates, mix);
  if (needs.gram) {
    for (double& one : c) one *= mix.direction.scale;
  } else if (!losses_.empty() && !c.empty()) {
    const double sum = std::accumulate(c.begin(), c.end(), 0.0);
    mixed_loss_ = std::inner_product(losses_.begin(), losses_.end(), c.begin(), 0.0) / sum;
  }
  std::optional<double> own;  // of the rule's row, which is nobody's update
  if (needs.extra_row != ExtraRow::kNone) {
    own = c.back();
    c.pop_back();
  }
  RoundWeights weights{.round = round_,
                       .clients = report.clients,
                       .turnout = participation_.turnout(),
                       .rows = report.clients.size() + absent,
                       .coefficients = c};
  for (RoundPart* part : acting_) part->weigh(weights);
  has_weight_ = weights.any || own;
  if (own) c.push_back(*own);
  return mix;
}

// Losses and norms are summed in the draw's order: the plan's depends on measured times.
double Server::observe(const RoundPlan& plan, const Findings& findings,
                       std::span<const float> received) {
  std::vector<double> losses(plan.size());
  std::vector<double> a(plan.size());
  std::vector<double> coefficients(plan.size());
  const std::size_t measured = findings.has_squares() ? plan.size() : 0;
  std::vector<double> squares(measured), sizes(measured);
  squared_norms_.assign(plan.size(), 0);
  left_out_ = counted_ = 0;
  const auto& tasks = participation_.turnout().tasks;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Assignment& entry = plan.entries()[i];
    const auto position = static_cast<std::size_t>(entry.position);
    const int64_t made = tasks.empty() ? 0 : tasks[position].steps;
    coefficients[position] = entry.coefficient;
    const bool trained = findings.trained(i);
    const bool rejected = findings.rejects() && findings.is_rejected(i);
    losses[position] = trained ? findings.of(i, Findings::kLoss) : kNothing;
    squared_norms_[position] = trained ? findings.of(i, Findings::kSquaredNorm) : kNothing;
    a[position] =
        rejected ? 0 : feedback(entry.client, entry.importance, squared_norms_[position], made);
    if (rejected) squared_norms_[position] = 0;
    const bool lost = rejected && !std::isfinite(losses[position]);
    if (lost) losses[position] = 0;
    if (!trained || lost) ++left_out_;
    if (trained && !rejected) ++counted_;
    if (measured == 0) continue;
    squares[position] = findings.of(i, Findings::kSquares);
    sizes[position] = findings.of(i, Findings::kSamples);
  }
  coefficients_ = std::accumulate(coefficients.begin(), coefficients.end(), 0.0);
  const Feedback feedback{.a = a,
                          .losses = losses,
                          .staleness = participation_.turnout().times.staleness,
                          .durations = participation_.turnout().times.durations,
                          .squares = squares,
                          .sizes = sizes};
  const TrainedRound trained{.round = round_,
                             .plan = plan,
                             .findings = findings,
                             .turnout = participation_.turnout(),
                             .received = received,
                             .feedback = feedback,
                             .squared_norms = squared_norms_};
  for (RoundPart* part : acting_) part->trained(trained);
  participation_.observe(feedback);
  sampling_lines_ += participation_.line(round_);
  double loss = 0;
  for (const double one : losses) loss += std::isnan(one) ? 0 : one;
  // Attackers without data have no loss.
  const int64_t counted = std::ssize(losses) - left_out_ - std::ranges::count(samples_, 0.0);
  return counted > 0 ? loss / static_cast<double>(counted) : kNothing;
}

void Server::move_control(std::span<float> control, std::span<const float> sent) const {
  const auto block = to_index(parts_.update.control_block());
  if (block == 0) {
    for (std::size_t i = 0; i < control.size(); ++i) control[i] += sent[i];
    return;
  }
  for (std::size_t first = 0; first < control.size(); first += block) {
    const float count = sent[first + block - 1];
    if (!(count > 0)) continue;
    for (std::size_t i = first; i < first + block; ++i) control[i] = sent[i] / count;
  }
}

void Server::prepare_step(std::span<float> control, std::span<const float> second_row) {
  const auto controls = static_cast<std::size_t>(parts_.update.control_width());
  parts_.stages.observe(second_row.subspan(controls));
  second_row = second_row.first(controls);
  if (control.empty()) parts_.optimizer->observe(second_row);
  move_control(control, second_row);
  scale_ = parts_.aggregator.scale(report({}), squared_norms_);
  require_finite_factor(scale_, round_);
}

void Server::step(int64_t begin, std::span<float> theta, std::span<float> update) {
  for (RoundPart* part : acting_) {
    if (part->steps()) return part->step(begin, update, theta);
  }
  const auto first = static_cast<std::size_t>(begin);
  const auto trained = std::clamp(sent_.trained, first, first + update.size()) - first;
  if (scale_ != 1) {
    for (float& value : update.first(trained)) value *= static_cast<float>(scale_);
  }
  const double rate = server_rate(settings_.server, round_);
  step_moving(*parts_.optimizer, acting_, rate, begin, theta.first(trained), update.first(trained));
  average_buffers(theta.subspan(trained), update.subspan(trained), coefficients_);
  for (RoundPart* part : acting_) part->stepped(begin, theta);
}

SumStep Server::by_entry() const {
  auto step = parts_.optimizer->by_entry();
  const bool is_replaced = std::ranges::any_of(acting_, &RoundPart::steps);
  const bool some_stand =
      std::ranges::any_of(acting_, [](const RoundPart* part) { return !part->still().empty(); });
  if (!step || is_replaced || some_stand || sent_.trained < sent_.size) return {};
  step->rates.rate = static_cast<float>(server_rate(settings_.server, round_));
  step->scale = static_cast<float>(scale_);
  return {.by_entry = step, .states = parts_.optimizer->entry_states()};
}

bool Server::accepts(std::span<const double> losses) const {
  return parts_.aggregator.accepts(losses_, losses);
}

void Server::add_columns(Columns& columns) const {
  if (settings_.round_seconds > 0) {
    columns.add_to_rounds([this] { return Metrics{{"left_out", static_cast<double>(left_out_)}}; });
  }
  if (parts_.aggregator.needs().directions)
    columns.add_to_rounds([this] { return directions_.numbers(); });
  parts_.aggregator.add_columns(columns);
  parts_.sampler->add_columns(columns);
  if (parts_.turnout) parts_.turnout->add_columns(columns);
}

Metrics Server::metrics() const {
  const ClientSampler& sampler = participation_.sampler();
  return sampler.even() ? Metrics() : summarize_probabilities(sampler);
}

std::vector<TableLines> Server::take_lines() {
  auto tables = directions_.take_lines();
  for (RoundPart* part : acting_) {
    for (auto& table : part->take_lines()) tables.push_back(std::move(table));
  }
  if (!sampling_lines_.empty()) {
    tables.push_back({"sampling.csv", Participation::kHeader, std::exchange(sampling_lines_, {})});
  }
  return tables;
}

void Server::visit(StateFields& fields) {
  if (fields.loads()) measured_ = 0;
  if (fields.has("idle/counts")) fields.part("idle", idle_);
  fields.part("participation", participation_);
  fields.part("aggregator", parts_.aggregator);
  fields.part("optimizer", *parts_.optimizer);
}

}  // namespace hanse
