// Numbers over clients: means, spread, fairness.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

namespace {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double weighted_mean(std::span<const double> values, std::span<const double> weights) {
  const double sum = std::inner_product(values.begin(), values.end(), weights.begin(), 0.0);
  return sum / std::accumulate(weights.begin(), weights.end(), 0.0);
}

// max(1, floor(share n)).
std::ptrdiff_t head_of(std::span<const double> sorted, double share) {
  const auto n = static_cast<double>(sorted.size());
  return std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(std::floor(share * n)));
}

// Unweighted mean of the head_of() lowest values, which are ascending; and of the highest, from
// the highest on.
double lowest_mean(std::span<const double> sorted, double share) {
  return mean(sorted.first(static_cast<std::size_t>(head_of(sorted, share))));
}

double highest_mean(std::span<const double> sorted, double share) {
  const std::ptrdiff_t count = head_of(sorted, share);
  return std::accumulate(sorted.rbegin(), sorted.rbegin() + count, 0.0) /
         static_cast<double>(count);
}

// sum_i (2i - n - 1) x_(i) / (n sum x), x ascending, i from 1.
double gini(std::span<const double> sorted) {
  const auto n = static_cast<double>(sorted.size());
  double weighted = 0;
  double sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    weighted += (2.0 * static_cast<double>(i + 1) - n - 1.0) * sorted[i];
    sum += sorted[i];
  }
  return sum > 0 ? weighted / (n * sum) : 0;
}

// -sum u ln u with u = a / sum a; ln n when all are zero.
double entropy(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (!(sum > 0)) return std::log(static_cast<double>(values.size()));
  double result = 0;
  for (const double a : values) {
    if (a > 0) result -= a / sum * std::log(a / sum);
  }
  return result;
}

// Degrees between the vector and all-ones: acos(sum x / (|x| sqrt n)).
double angle_to_ones(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  if (!(squares > 0)) return 0;
  const double cosine = sum / std::sqrt(squares * static_cast<double>(values.size()));
  return std::acos(std::clamp(cosine, -1.0, 1.0)) * 180.0 / std::numbers::pi;
}

double deviation(std::span<const double> values) {
  const double center = mean(values);
  double squares = 0;
  for (const double x : values) squares += (x - center) * (x - center);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

std::vector<double> rising(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

void add_loss(std::span<const double> loss, std::span<const double> samples, Metrics& metrics) {
  const auto low = rising(loss);
  metrics.emplace_back("loss_mean", mean(loss));
  metrics.emplace_back("loss_weighted", weighted_mean(loss, samples));
  metrics.emplace_back("loss_std", deviation(loss));
  metrics.emplace_back("loss_worst10", highest_mean(low, 0.10));
  metrics.emplace_back("loss_best10", lowest_mean(low, 0.10));
}

void add_accuracy(std::span<const double> accuracy, std::span<const double> samples,
                  Metrics& metrics) {
  const auto low = rising(accuracy);
  const double h = entropy(accuracy);
  const double worst10 = lowest_mean(low, 0.10);
  const double best10 = highest_mean(low, 0.10);
  metrics.emplace_back("accuracy_mean", mean(accuracy));
  metrics.emplace_back("accuracy_weighted", weighted_mean(accuracy, samples));
  metrics.emplace_back("accuracy_std", deviation(accuracy));
  metrics.emplace_back("accuracy_worst10", worst10);
  metrics.emplace_back("accuracy_best10", best10);
  metrics.emplace_back("accuracy_worst5", lowest_mean(low, 0.05));
  metrics.emplace_back("accuracy_best5", highest_mean(low, 0.05));
  metrics.emplace_back("accuracy_gini", gini(low));
  metrics.emplace_back("accuracy_gap", best10 - worst10);
  metrics.emplace_back("accuracy_entropy", h);
  metrics.emplace_back("accuracy_kl", std::log(static_cast<double>(accuracy.size())) - h);
  metrics.emplace_back("accuracy_angle", angle_to_ones(accuracy));
}

// Mean and spread over the clients that have such a number, and how many have none.
void add_spread(const std::string& name, std::span<const double> values,
                std::span<const double> samples, Metrics& metrics) {
  std::vector<double> low, weights;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    low.push_back(values[i]);
    weights.push_back(samples[i]);
  }
  const auto left_out = static_cast<double>(values.size() - low.size());
  const double middle = low.empty() ? 0 : mean(low);  // in the order of the clients
  const double weighted = low.empty() ? 0 : weighted_mean(low, weights);
  weights = std::vector<double>();  // {} would keep the memory
  std::ranges::sort(low);
  const bool small = is_small_better_score(name);
  const auto add = [&](const std::string& what, auto number) {
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    metrics.emplace_back(name + what, low.empty() ? nothing : number());
  };
  add("", [&] { return middle; });
  add("_weighted", [&] { return weighted; });
  add("_worst10", [&] { return small ? highest_mean(low, 0.10) : lowest_mean(low, 0.10); });
  add("_worst", [&] { return small ? low.back() : low.front(); });
  add("_best", [&] { return small ? low.front() : low.back(); });
  add("_gini", [&] { return gini(low); });
  add("_gap", [&] { return highest_mean(low, 0.10) - lowest_mean(low, 0.10); });
  metrics.emplace_back(name + "_left_out", left_out);
}

// Scores of the clients that have such scores.
class ScoreNumbers {
 public:
  ScoreNumbers(const EvaluationView& clients, ScoresOf of) : clients_(clients), of_(of) {
    if (of == ScoresOf::kOwn) return;
    const NumberColumn& samples = column(Score::kSamples, 0);
    for (std::size_t i = 0; i < samples.size(); ++i) has_.push_back(!std::isnan(samples[i]));
  }

  // `room` as in NumberColumn.
  std::span<const double> of(Score score, std::vector<double>& room, std::size_t asked = 0) const {
    const auto all = clients_.numbers(column(score, asked), room);
    if (has_.empty()) return all;
    std::vector<double> found;
    const std::size_t first = clients_.first();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (has_[first + i]) found.push_back(all[i]);
    }
    room = std::move(found);
    return room;
  }

 private:
  const NumberColumn& column(Score score, std::size_t asked) const {
    return clients_.table().scores(of_, score, asked);
  }

  EvaluationView clients_;
  ScoresOf of_;
  std::vector<bool> has_;  // by place in the table; empty: all have
};

// The metrics of scores behind those of training: accuracies, and what is asked for.
void add_scores(const ScoreNumbers& scores, std::span<const double> samples, int64_t classes,
                const AskedMetrics& asked, Metrics& metrics) {
  std::vector<double> room;
  if (classes > 0) add_accuracy(scores.of(Score::kAccuracy, room), samples, metrics);
  if (classes == 2) add_spread("auroc", scores.of(Score::kAuroc, room), samples, metrics);
  for (const auto& [name, place] : score_places(asked)) {
    add_spread(name, scores.of(Score::kAsked, room, place), samples, metrics);
  }
}

struct TrainingProgress {
  double improved, fell;
};

// The share of the participants whose training loss did not rise, and of all clients with a loss
// before whose loss fell; NaN without any.
TrainingProgress progress_since(std::span<const double> before, const EvaluationView& now) {
  double participants = 0, improved = 0, compared = 0, fell = 0;
  const EvaluationTable& table = now.table();
  for (std::size_t i = now.first(); i < now.first() + now.size() && !before.empty(); ++i) {
    const double then = before[to_index(table.client(i))], loss = table.train_loss()[i];
    if (std::isnan(then)) continue;
    ++compared;
    if (table.took_part(i)) ++participants;
    if (table.took_part(i) && loss <= then) ++improved;
    if (loss < then) ++fell;
  }
  return {improved / participants, fell / compared};  // 0/0: NaN
}

Metrics summarize_scores(const std::string& prefix, const EvaluationView& clients, ScoresOf of,
                         int64_t classes, const AskedMetrics& asked) {
  const ScoreNumbers scores(clients, of);
  std::vector<double> room, samples_room;
  const auto samples = scores.of(Score::kSamples, samples_room);
  Metrics metrics;
  if (samples.empty() && of != ScoresOf::kOwn) return metrics;
  add_loss(scores.of(Score::kLoss, room), samples, metrics);
  add_scores(scores, samples, classes, asked, metrics);
  for (auto& [name, value] : metrics) name.insert(0, prefix);
  return metrics;
}

}  // namespace

std::string number_or_nothing(double value) {
  if (std::isnan(value)) return "";
  if (std::abs(value) < 1e9 && value == std::floor(value) && !std::signbit(value)) {
    return fmt::format_int(static_cast<int64_t>(value)).str();
  }
  char text[32];
  return {text, std::to_chars(text, std::end(text), value, std::chars_format::general, 9).ptr};
}

std::string counted_or_nothing(double value) {
  constexpr double kNeedsDigits = 1e3, kExact = 0x1p53;
  const auto is_whole = [](double x) { return std::abs(x) < kExact && x == std::round(x); };
  const double millionths = std::round(1e6 * value);
  const bool all_digits = is_whole(value) || (is_whole(millionths) && millionths / 1e6 == value);
  if (!all_digits || std::abs(value) < kNeedsDigits) return number_or_nothing(value);
  char text[32];
  return {text, std::to_chars(text, std::end(text), value, std::chars_format::fixed).ptr};
}

Metrics summarize(const EvaluationView& clients, std::span<const double> previous_train_loss,
                  int64_t classes, const AskedMetrics& asked) {
  const ScoreNumbers scores(clients, ScoresOf::kOwn);
  std::vector<double> room, samples_room;
  const auto samples = scores.of(Score::kSamples, samples_room);
  Metrics metrics;
  add_loss(scores.of(Score::kLoss, room), samples, metrics);
  {
    const auto loss = clients.numbers(clients.table().train_loss(), room);
    std::vector<double> weights_room;
    metrics.emplace_back("train_loss_mean", mean(loss));
    metrics.emplace_back(
        "train_loss_weighted",
        weighted_mean(loss, clients.numbers(clients.table().train_samples(), weights_room)));
  }
  add_scores(scores, samples, classes, asked, metrics);
  const TrainingProgress progress = progress_since(previous_train_loss, clients);
  metrics.emplace_back("improved", progress.improved);
  metrics.emplace_back("train_loss_fell", progress.fell);
  return metrics;
}

Metrics summarize_tests(const std::string& prefix, const EvaluationView& clients, int64_t classes,
                        const AskedMetrics& asked) {
  return summarize_scores(prefix, clients, ScoresOf::kOwn, classes, asked);
}

EvaluationView trained_clients(const EvaluationTable& clients, const Federation& federation) {
  if (federation.held_out() == 0) return clients;  // also for a protocol of its own
  return EvaluationView(clients)
      .part([&](int64_t client) { return client >= federation.clients(); })
      .first;
}

Metrics summarize_all(const EvaluationTable& clients, std::span<const double> previous_train_loss,
                      const Federation& federation, const AskedMetrics& asked) {
  const int64_t classes = federation.classes();
  const EvaluationView trained = trained_clients(clients, federation);
  const auto [for_validation, for_tests] =
      EvaluationView(clients, trained.size(), clients.size()).part([&](int64_t client) {
        return !is_for_validation(federation, client);
      });
  Metrics metrics = summarize(trained, previous_train_loss, classes, asked);
  const auto add = [&](const std::string& prefix, const EvaluationView& of,
                       ScoresOf which = ScoresOf::kOwn) {
    if (of.empty()) return;
    std::ranges::move(summarize_scores(prefix, of, which, classes, asked),
                      std::back_inserter(metrics));
  };
  const EvaluationView& shown = asked.on == EvaluateOn::kValidation ? for_validation : for_tests;
  add("before_", trained, ScoresOf::kBefore);
  add("held_out_", shown);
  add("held_out_before_", shown, ScoresOf::kBefore);
  if (asked.clients > 0) {
    metrics.emplace_back("clients_evaluated", static_cast<double>(trained.size()));
  }
  if (asked.on != EvaluateOn::kBoth) return metrics;
  add("validation_", trained, ScoresOf::kValidation);
  add("validation_held_out_", for_validation);
  return metrics;
}

void add_over_repeats(Metrics& metrics, const std::string& name, std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / n;
  metrics.emplace_back(name, mean);
  if (values.size() == 1) return;
  for (const double value : values) variance += (value - mean) * (value - mean) / (n - 1);
  metrics.emplace_back(name + "_std", std::sqrt(variance));
}

}  // namespace hanse
