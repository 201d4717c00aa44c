#include "hanse/evaluation/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/balance.hpp"

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
  const LabelForm form = federation.label_form();
  const std::span<const int32_t> labels = labels_of(federation, samples);
  ScoredSamples found_of(asked.scores, form, samples.size(), asked.any());
  const std::vector<int32_t>& ranks = found_of.ranks;
  std::vector<int32_t> taken_for(asked.confusion && counts ? labels.size() : 0);
  if (form.classes == 2 && form.values == 1) scores.resize(labels.size());
  SampleResults results = found_of.results();
  if (!scores.empty()) results.scores = scores.data();
  if (!taken_for.empty()) results.classes = taken_for.data();
  const EvaluationSums sums = model.range(samples, results);
  const auto n = static_cast<double>(sums.samples);
  TestScores found{.samples = n,
                   .loss = sums.loss / n,
                   .accuracy = sums.correct / n,
                   .auroc = std::numeric_limits<double>::quiet_NaN(),
                   .asked = {}};
  if (!scores.empty()) found.auroc = area_under_roc(scores, labels);
  if (!asked.any()) return found;
  const RankCounts own(labels, ranks, form.classes);
  found.asked =
      asked_scores(asked, own, sum_scores(asked.scores, federation, samples, found_of, sums.loss));
  if (counts) counts->add(own);
  if (!taken_for.empty()) counts->add(labels, taken_for);
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
  found.client = client;
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

}  // namespace

SampleRange evaluated_samples(const Federation& federation, int64_t client, EvaluateOn on) {
  const bool trained = client < federation.clients();
  const bool validates =
      trained ? on == EvaluateOn::kValidation : is_for_validation(federation, client);
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

EvaluationTable evaluate(const Federation& federation, const EvaluationRequest& request,
                         const std::function<Evaluator&(std::size_t i)>& model_of,
                         ClassCounts* counts) {
  EvaluationTable found;
  found.reserve(request.clients.size());
  for (std::size_t i = 0; i < request.clients.size(); ++i) {
    found.push_back(evaluate_one(federation, model_of(i), request.clients[i], request, counts));
  }
  return found;
}

std::vector<int64_t> evaluated_clients(const Federation& federation, const AskedMetrics& asked,
                                       int64_t round) {
  const int64_t trained = federation.clients();
  const int64_t validation = trained + federation.validation_clients();
  std::vector<int64_t> clients;
  uint64_t group = 0;
  for (const auto& [begin, end] : {std::pair{int64_t{0}, trained},
                                   {trained, validation},
                                   {validation, trained + federation.held_out()}}) {
    std::vector<int64_t> own;
    own.reserve(to_index(end - begin));
    for (int64_t c = begin; c < end; ++c) {
      if (federation.train(c).size() + federation.test(c).size() > 0) own.push_back(c);
    }
    if (asked.clients > 0 && asked.clients < std::ssize(own)) {
      RandomStream(asked.seed, Purpose::kEvaluation, static_cast<uint64_t>(round), group)
          .shuffle(std::span(own));
      own.resize(to_index(asked.clients));
      std::ranges::sort(own);
    }
    if (clients.empty()) {
      clients = std::move(own);
    } else {
      clients.insert(clients.end(), own.begin(), own.end());
    }
    ++group;
  }
  return clients;
}

// Columns of differing numbers; and the clients' list, one that is sorted, and the losses that the
// next evaluation is compared with.
double evaluation_bytes(int64_t clients, int64_t classes, const AskedMetrics& asked, bool before) {
  constexpr double kBeside = 3;
  const double scores = 2 + (classes > 0 ? 1 : 0) + (classes == 2 ? 1 : 0) +
                        static_cast<double>(named_scores(asked, {}).size());
  const double times = 1 + (before ? 1 : 0) + (asked.on == EvaluateOn::kBoth ? 1 : 0);
  return sizeof(double) * static_cast<double>(clients) * (2 + scores * times + kBeside);
}

std::vector<int64_t> evaluation_share(const Communicator& comm, const Federation& federation,
                                      std::span<const int64_t> clients) {
  if (comm.size() == 1) return {clients.begin(), clients.end()};
  std::vector<int64_t> sizes;
  for (const int64_t c : clients) {
    sizes.push_back(federation.train(c).size() + federation.test(c).size());
  }
  const auto borders = cut_evenly(sizes, comm.size());
  const auto rank = to_index(comm.rank());
  return {clients.begin() + borders[rank], clients.begin() + borders[rank + 1]};
}

Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix, const AskedMetrics& asked) {
  constexpr int64_t kPieceSamples = 1024;
  const SampleRange all = federation.common_test();
  if (all.size() == 0) return {};
  std::vector<int64_t> places;
  std::vector<EvaluationSums> found;
  std::vector<ScoreSums> scores;
  RankCounts counts({}, {}, federation.classes());
  for (int64_t begin = all.begin; begin < all.end; begin += kPieceSamples) {
    const int64_t piece = (begin - all.begin) / kPieceSamples;
    if (piece % comm.size() != comm.rank()) continue;
    places.push_back(piece);
    const SampleRange part{begin, std::min(begin + kPieceSamples, all.end)};
    ScoredSamples scored(asked.scores, federation.label_form(), part.size(), asked.any());
    found.push_back(model.range(part, scored.results()));
    scores.push_back(sum_scores(asked.scores, federation, part, scored, found.back().loss));
    if (!asked.any()) continue;
    counts += RankCounts(labels_of(federation, part), scored.ranks, federation.classes());
  }
  for (const std::span<int64_t> sums :
       {std::span<int64_t>(counts.samples), std::span<int64_t>(counts.correct),
        std::span<int64_t>(&counts.top5, 1)}) {
    if (asked.any()) comm.reduce(sums, ReduceOp::kSum, 0);
  }
  places = comm.gatherv(std::span<const int64_t>(places), 0);
  found = comm.gatherv(std::span<const EvaluationSums>(found), 0);
  scores = comm.gatherv(std::span<const ScoreSums>(scores), 0);
  if (comm.rank() != 0) return {};
  std::vector<std::size_t> order(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) order[to_index(places[i])] = i;
  EvaluationSums sums;
  ScoreSums all_scores;
  for (const std::size_t i : order) {
    sums += found[i];
    for (std::size_t s = 0; s < kMostScores; ++s) all_scores[s] += scores[i][s];
  }
  const auto samples = static_cast<double>(sums.samples);
  std::vector<double> values{sums.loss / samples};
  if (federation.classes() > 0) values.push_back(sums.correct / samples);
  for (const auto& [name, value] : named_scores(asked, asked_scores(asked, counts, all_scores))) {
    values.push_back(value);
  }
  Metrics metrics;
  for (const std::string& name : common_test_names(federation, asked)) {
    metrics.emplace_back(prefix + name, values[metrics.size()]);
  }
  return metrics;
}

std::vector<std::string> common_test_names(const Federation& federation,
                                           const AskedMetrics& asked) {
  if (federation.common_test().size() == 0) return {};
  std::vector<std::string> names{"common_loss"};
  if (federation.classes() > 0) names.push_back("common_accuracy");
  for (const auto& [name, value] : named_scores(asked, {})) names.push_back("common_" + name);
  return names;
}

}  // namespace hanse
