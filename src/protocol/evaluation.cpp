#include "hanse/protocol/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/protocol/schedule.hpp"

namespace hanse {

namespace {

// Twice the sum of the ranks (from 1) of class 1: a whole number even with shared ranks, so exact.
double doubled_rank_sum(std::span<const float> scores, std::span<const int32_t> labels) {
  std::vector<std::size_t> order(scores.size());  // by rising score
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double sum = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double positives = 0;  // among equal scores
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      positives += labels[order[end]] == 1 ? 1 : 0;
    }
    sum += positives * static_cast<double>(begin + 1 + end);  // first rank + last rank
    begin = end;
  }
  return sum;
}

// Adds the samples to `counts`, where there are some.
TestScores scores_on(const Federation& federation, Evaluator& model, SampleRange samples,
                     const AskedMetrics& asked, ClassCounts* counts) {
  std::vector<float> scores;
  std::vector<int32_t> ranks(to_index(asked.any() ? samples.size() : 0));
  std::span<const int32_t> labels;
  if (federation.classes() > 0) {
    labels = federation.labels().subspan(to_index(samples.begin), to_index(samples.size()));
  }
  if (federation.classes() == 2) scores.resize(labels.size());
  const EvaluationSums sums =
      model.range(samples, {.scores = scores.empty() ? nullptr : scores.data(),
                            .ranks = ranks.empty() ? nullptr : ranks.data()});
  const auto n = static_cast<double>(sums.samples);
  TestScores found{.samples = n,
                   .loss = sums.loss / n,
                   .accuracy = sums.correct / n,
                   .auroc = std::numeric_limits<double>::quiet_NaN(),
                   .asked = {}};
  if (!scores.empty()) found.auroc = area_under_roc(scores, labels);
  if (ranks.empty()) return found;
  const RankCounts own(labels, ranks, federation.classes());
  found.asked = asked_scores(asked, own);
  if (counts) counts->add(own);
  return found;
}

ClientEvaluation evaluate_one(const Federation& federation, Evaluator& model, int64_t client,
                              const EvaluationRequest& request, ClassCounts* counts) {
  const bool trained = client < federation.clients();
  const SampleRange own = evaluated_samples(federation, client, request.asked.on);
  const TestScores on_own =
      scores_on(federation, model, own, request.asked, trained ? counts : nullptr);
  ClientEvaluation found{.samples = on_own.samples,
                         .loss = on_own.loss,
                         .accuracy = on_own.accuracy,
                         .train_loss = std::numeric_limits<double>::quiet_NaN(),
                         .auroc = on_own.auroc,
                         .asked = on_own.asked};
  if (trained && request.asked.on == EvaluateOn::kBoth) {
    found.validation =
        scores_on(federation, model, federation.validation(client), request.asked, nullptr);
  }
  if (request.split == Split::kTest) return found;
  const SampleRange train = federation.train(client);
  if (own.begin == train.begin) {
    found.train_samples = found.samples;
    found.train_loss = found.loss;
  } else {
    const EvaluationSums on_train = model.range(train);
    found.train_samples = static_cast<double>(on_train.samples);
    found.train_loss = on_train.loss / found.train_samples;
  }
  return found;
}

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
  const auto add = [&](const std::string& what, auto number) {
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    metrics.emplace_back(name + what, low.empty() ? nothing : number());
  };
  add("", [&] { return middle; });
  add("_weighted", [&] { return weighted; });
  add("_worst10", [&] { return head_mean(low, 0.10); });
  add("_worst", [&] { return low.front(); });
  add("_best", [&] { return high.front(); });
  add("_gini", [&] { return gini(low); });
  add("_gap", [&] { return head_mean(high, 0.10) - head_mean(low, 0.10); });
  metrics.emplace_back(name + "_left_out", left_out);
}

// One number of each client.
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

// Share of the participants whose training loss did not rise, and of all clients whose fell; NaN
// without an evaluation before, or without participants.
TrainingProgress progress_since(std::span<const double> before,
                                std::span<const ClientEvaluation> now) {
  double participants = 0, improved = 0, fell = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (now[i].took_part) ++participants;
    if (now[i].took_part && now[i].train_loss <= before[i]) ++improved;
    if (now[i].train_loss < before[i]) ++fell;
  }
  return {improved / participants, fell / static_cast<double>(before.size())};  // 0/0: NaN
}

// Those that have such scores, with these in place of their own.
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

SampleRange evaluated_samples(const Federation& federation, int64_t client, EvaluateOn on) {
  const bool trained = client < federation.clients();
  const bool validates =
      trained ? on == EvaluateOn::kValidation : federation.is_for_validation(client);
  return validates ? federation.validation(client) : federation.test(client);
}

bool evaluated_apart(const Federation& federation, int64_t client, EvaluateOn on) {
  const SampleRange own = evaluated_samples(federation, client, on);
  return own.size() > 0 && own.begin >= federation.train(client).end;
}

double area_under_roc(std::span<const float> scores, std::span<const int32_t> labels) {
  const bool has_nan =
      std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); });
  const auto n_1 = static_cast<double>(std::count(labels.begin(), labels.end(), 1));
  const double n_0 = static_cast<double>(labels.size()) - n_1;
  if (has_nan || n_1 == 0 || n_0 == 0) return std::numeric_limits<double>::quiet_NaN();
  return (doubled_rank_sum(scores, labels) - n_1 * (n_1 + 1)) / (2 * n_1 * n_0);
}

std::vector<ClientEvaluation> evaluate(const Federation& federation,
                                       const EvaluationRequest& request,
                                       const std::function<Evaluator&(std::size_t i)>& model_of,
                                       ClassCounts* counts) {
  std::vector<ClientEvaluation> found;
  for (std::size_t i = 0; i < request.clients.size(); ++i) {
    found.push_back(evaluate_one(federation, model_of(i), request.clients[i], request, counts));
  }
  return found;
}

std::vector<ClientEvaluation> gather_evaluations(Communicator& comm,
                                                 std::span<const int64_t> clients,
                                                 std::span<const ClientEvaluation> found) {
  const auto places = comm.gatherv(clients, 0);
  const auto unordered = comm.gatherv(found, 0);
  std::vector<ClientEvaluation> all(unordered.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[to_index(places[i])] = unordered[i];
  }
  return all;
}

std::vector<int64_t> evaluation_share(const Communicator& comm, const Federation& federation) {
  std::vector<int64_t> sizes;
  for (int64_t c = 0; c < federation.clients() + federation.held_out(); ++c) {
    sizes.push_back(federation.train(c).size() + federation.test(c).size());
  }
  const auto borders = cut_evenly(sizes, comm.size());
  const auto rank = to_index(comm.rank());
  std::vector<int64_t> share(to_index(borders[rank + 1] - borders[rank]));
  std::iota(share.begin(), share.end(), borders[rank]);
  return share;
}

std::string number_or_nothing(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.9g}", value);
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
  const int64_t held_out =
      std::clamp<int64_t>(std::ssize(clients) - federation.clients(), 0, federation.held_out());
  return clients.first(clients.size() - to_index(held_out));
}

Metrics summarize_all(std::span<const ClientEvaluation> clients,
                      std::span<const double> previous_train_loss, const Federation& federation,
                      const AskedMetrics& asked) {
  const int64_t classes = federation.classes();
  const auto trained = trained_clients(clients, federation);
  const auto held_out = clients.subspan(trained.size());
  const auto for_validation =
      held_out.first(std::min(held_out.size(), to_index(federation.validation_clients())));
  const auto for_tests = held_out.subspan(for_validation.size());
  Metrics metrics = summarize(trained, previous_train_loss, classes, asked);
  const auto add = [&](const std::string& prefix, std::span<const ClientEvaluation> of) {
    if (of.empty()) return;
    std::ranges::move(summarize_tests(prefix, of, classes, asked), std::back_inserter(metrics));
  };
  const auto shown = asked.on == EvaluateOn::kValidation ? for_validation : for_tests;
  add("held_out_", shown);
  add("held_out_before_", with_scores(shown, &ClientEvaluation::before));
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
