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

// Unweighted mean of the max(1, floor(share n)) first values.
double head_mean(std::span<const double> sorted, double share) {
  const auto n = static_cast<double>(sorted.size());
  const auto count = std::max<std::size_t>(1, static_cast<std::size_t>(std::floor(share * n)));
  return mean(sorted.subspan(0, count));
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

std::vector<double> rising(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

void add_accuracy(const std::vector<double>& accuracy, std::span<const double> samples,
                  Metrics& metrics) {
  const auto low = rising(accuracy);
  const std::vector<double> high(low.rbegin(), low.rend());
  const double h = entropy(accuracy);
  const double worst10 = head_mean(low, 0.10);
  const double best10 = head_mean(high, 0.10);
  metrics.emplace_back("accuracy_mean", mean(accuracy));
  metrics.emplace_back("accuracy_weighted", weighted_mean(accuracy, samples));
  metrics.emplace_back("accuracy_std", deviation(accuracy));
  metrics.emplace_back("accuracy_worst10", worst10);
  metrics.emplace_back("accuracy_best10", best10);
  metrics.emplace_back("accuracy_worst5", head_mean(low, 0.05));
  metrics.emplace_back("accuracy_best5", head_mean(high, 0.05));
  metrics.emplace_back("accuracy_gini", gini(low));
  metrics.emplace_back("accuracy_gap", best10 - worst10);
  metrics.emplace_back("accuracy_entropy", h);
  metrics.emplace_back("accuracy_kl", std::log(static_cast<double>(accuracy.size())) - h);
  metrics.emplace_back("accuracy_angle", angle_to_ones(accuracy));
}

// Mean and spread over the clients that have such a number, and how many have none.
void add_spread(const std::string& name, const std::vector<double>& values,
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
  std::ranges::sort(low);
  const std::vector<double> high(low.rbegin(), low.rend());
  const bool small = is_small_better_score(name);
  const auto& worst = small ? high : low;
  const auto& best = small ? low : high;
  const auto add = [&](const std::string& what, auto number) {
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    metrics.emplace_back(name + what, low.empty() ? nothing : number());
  };
  add("", [&] { return middle; });
  add("_weighted", [&] { return weighted; });
  add("_worst10", [&] { return head_mean(worst, 0.10); });
  add("_worst", [&] { return worst.front(); });
  add("_best", [&] { return best.front(); });
  add("_gini", [&] { return gini(low); });
  add("_gap", [&] { return head_mean(high, 0.10) - head_mean(low, 0.10); });
  metrics.emplace_back(name + "_left_out", left_out);
}

// Takes one number of each client.
template <class Number>
std::vector<double> numbers_of(std::span<const ClientEvaluation> clients, Number number) {
  std::vector<double> numbers;
  for (const ClientEvaluation& client : clients) numbers.push_back(number(client));
  return numbers;
}

void add_asked(std::span<const ClientEvaluation> clients, const AskedMetrics& asked,
               std::span<const double> samples, Metrics& metrics) {
  const auto names = named_scores(asked, {});
  for (std::size_t i = 0; i < names.size(); ++i) {
    add_spread(names[i].first,
               numbers_of(clients,
                          [&](const ClientEvaluation& client) {
                            return named_scores(asked, client.asked)[i].second;
                          }),
               samples, metrics);
  }
}

struct TrainingProgress {
  double improved, fell;
};

// The share of the participants whose training loss did not rise, and of all clients with a loss
// before whose loss fell; NaN without any.
TrainingProgress progress_since(std::span<const double> before,
                                std::span<const ClientEvaluation> now) {
  double participants = 0, improved = 0, compared = 0, fell = 0;
  for (const ClientEvaluation& client : now) {
    if (before.empty() || std::isnan(before[to_index(client.client)])) continue;
    const double then = before[to_index(client.client)];
    ++compared;
    if (client.took_part) ++participants;
    if (client.took_part && client.train_loss <= then) ++improved;
    if (client.train_loss < then) ++fell;
  }
  return {improved / participants, fell / compared};  // 0/0: NaN
}

// The clients that have such scores, with these in place of their own.
std::vector<ClientEvaluation> with_scores(std::span<const ClientEvaluation> clients,
                                          std::optional<TestScores> ClientEvaluation::*which) {
  std::vector<ClientEvaluation> found;
  for (const ClientEvaluation& client : clients) {
    if (!(client.*which)) continue;
    const auto& [samples, loss, accuracy, auroc, scores] = *(client.*which);
    found.push_back(
        {.samples = samples, .loss = loss, .accuracy = accuracy, .auroc = auroc, .asked = scores});
  }
  return found;
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

Metrics summarize(std::span<const ClientEvaluation> clients,
                  std::span<const double> previous_train_loss, int64_t classes,
                  const AskedMetrics& asked) {
  std::vector<double> loss, accuracy, samples, train_loss, train_samples;
  for (const auto& client : clients) {
    loss.push_back(client.loss);
    accuracy.push_back(client.accuracy);
    samples.push_back(client.samples);
    train_loss.push_back(client.train_loss);
    train_samples.push_back(client.train_samples);
  }
  const auto low = rising(loss);
  const std::vector<double> high(low.rbegin(), low.rend());
  Metrics metrics{{"loss_mean", mean(loss)},
                  {"loss_weighted", weighted_mean(loss, samples)},
                  {"loss_std", deviation(loss)},
                  {"loss_worst10", head_mean(high, 0.10)},
                  {"loss_best10", head_mean(low, 0.10)},
                  {"train_loss_mean", mean(train_loss)},
                  {"train_loss_weighted", weighted_mean(train_loss, train_samples)}};
  if (classes > 0) add_accuracy(accuracy, samples, metrics);
  if (classes == 2) {
    add_spread("auroc", numbers_of(clients, [](const auto& client) { return client.auroc; }),
               samples, metrics);
  }
  add_asked(clients, asked, samples, metrics);
  const TrainingProgress progress = progress_since(previous_train_loss, clients);
  metrics.emplace_back("improved", progress.improved);
  metrics.emplace_back("train_loss_fell", progress.fell);
  return metrics;
}

Metrics summarize_tests(const std::string& prefix, std::span<const ClientEvaluation> clients,
                        int64_t classes, const AskedMetrics& asked) {
  Metrics metrics;
  for (const auto& [name, value] : summarize(clients, {}, classes, asked)) {
    const bool of_training = name.starts_with("train_") || name == "improved";
    if (!of_training) metrics.emplace_back(prefix + name, value);
  }
  return metrics;
}

std::span<const ClientEvaluation> trained_clients(std::span<const ClientEvaluation> clients,
                                                  const Federation& federation) {
  if (federation.held_out() == 0) return clients;  // also for a protocol of its own
  const auto first =
      std::ranges::lower_bound(clients, federation.clients(), {}, &ClientEvaluation::client);
  return {clients.begin(), first};
}

Metrics summarize_all(std::span<const ClientEvaluation> clients,
                      std::span<const double> previous_train_loss, const Federation& federation,
                      const AskedMetrics& asked) {
  const int64_t classes = federation.classes();
  const auto trained = trained_clients(clients, federation);
  const auto held_out = clients.subspan(trained.size());
  const auto first_for_tests = std::ranges::partition_point(
      held_out, [&](const auto& client) { return is_for_validation(federation, client.client); });
  const std::span for_validation(held_out.begin(), first_for_tests);
  const auto for_tests = held_out.subspan(for_validation.size());
  Metrics metrics = summarize(trained, previous_train_loss, classes, asked);
  const auto add = [&](const std::string& prefix, std::span<const ClientEvaluation> of) {
    if (of.empty()) return;
    std::ranges::move(summarize_tests(prefix, of, classes, asked), std::back_inserter(metrics));
  };
  const auto shown = asked.on == EvaluateOn::kValidation ? for_validation : for_tests;
  add("before_", with_scores(trained, &ClientEvaluation::before));
  add("held_out_", shown);
  add("held_out_before_", with_scores(shown, &ClientEvaluation::before));
  if (asked.clients > 0) {
    metrics.emplace_back("clients_evaluated", static_cast<double>(trained.size()));
  }
  if (asked.on != EvaluateOn::kBoth) return metrics;
  add("validation_", with_scores(trained, &ClientEvaluation::validation));
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
