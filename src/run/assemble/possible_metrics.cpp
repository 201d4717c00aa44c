#include "possible_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "hanse/base/index.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/attacks.hpp"

namespace hanse {

namespace {

constexpr const char* kDeciding = "validation_";
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Which labels some samples have.
struct Labels {
  bool any = false;  // a class, of the sample or of one of its positions, or a target
  bool zero = false, one = false;
};

Labels labels_in(const Federation& federation, SampleRange samples) {
  const LabelForm form = federation.label_form();
  if (form.multi_label) {
    const auto marks = federation.targets().subspan(to_index(samples.begin * form.values),
                                                    to_index(samples.size() * form.values));
    return {.any = std::ranges::find(marks, 1.0F) != marks.end()};
  }
  if (form.classes == 0) return {.any = true};
  Labels found;
  for (const int32_t label : labels_of(federation, samples)) {
    found.any = found.any || label >= 0;
    found.zero = found.zero || label == 0;
    found.one = found.one || label == 1;
    if (found.zero && found.one) break;
  }
  return found;
}

double zero_if(bool possible) { return possible ? 0 : kNothing; }

// 0 where a model can find a number. Without a sample of class 1 an F1 is 0 or undefined.
AskedScores possible_scores(const AskedMetrics& asked, const Labels& labels) {
  AskedScores scores{.top5 = zero_if(labels.any),
                     .balanced_accuracy = zero_if(labels.any),
                     .f1 = zero_if(labels.one)};
  for (std::size_t i = 0; i < kMostScores && asked.scores[i].kind >= 0; ++i) {
    const bool of_loss = is_small_better_score(score_column(asked.scores[i]));
    scores.more[i] = zero_if(labels.any || of_loss);
  }
  return scores;
}

TestScores possible_tests(const Federation& federation, SampleRange samples,
                          const AskedMetrics& asked) {
  const LabelForm form = federation.label_form();
  const bool has_auroc = form.classes == 2 && form.values == 1 && !form.multi_label;
  Labels labels;
  if (has_auroc || asked.any()) labels = labels_in(federation, samples);
  return {.samples = static_cast<double>(samples.size()),
          .loss = 0,
          .accuracy = 1,
          .auroc = zero_if(has_auroc && labels.zero && labels.one),
          .asked = possible_scores(asked, labels)};
}

ClientEvaluation possible_evaluation(const Job& job, const Federation& federation,
                                     const AskedMetrics& asked, int64_t client) {
  const TestScores own =
      possible_tests(federation, evaluated_samples(federation, client, asked.on), asked);
  ClientEvaluation found{.samples = own.samples,
                         .loss = own.loss,
                         .accuracy = own.accuracy,
                         .train_samples = static_cast<double>(federation.train(client).size()),
                         .auroc = own.auroc,
                         .asked = own.asked};
  found.client = client;
  if (job.evaluate.tune_steps > 0) found.before = own;
  if (asked.on == EvaluateOn::kBoth && client < federation.clients()) {
    found.validation = possible_tests(federation, federation.validation(client), asked);
  }
  return found;
}

bool evaluates_again(const Job& job) {
  const int64_t every = job.evaluate.every;
  return job.evaluate.start || (every > 0 && every < job.run.rounds);
}

}  // namespace

Metrics possible_metrics(const Job& job, const Federation& federation) {
  const AskedMetrics asked = asked_of(job);
  EvaluationTable all;
  for (int64_t client = 0; client < federation.clients() + federation.held_out(); ++client) {
    if (federation.train(client).size() + federation.test(client).size() == 0) continue;
    all.push_back(possible_evaluation(job, federation, asked, client));
  }
  const std::vector<double> before(evaluates_again(job) ? to_index(federation.clients()) : 0);
  Metrics metrics = summarize_all(all, before, federation, asked);
  if (poison_of(job, federation.clients()).kind != Poison::kNone) {
    metrics.emplace_back("attack_success", 0);
  }
  for (const std::string& name : common_test_names(federation, asked)) {
    metrics.emplace_back(name, 0);
  }
  if (asked.any() && federation.common_test().size() > 0) {
    const auto scores = possible_scores(asked, labels_in(federation, federation.common_test()));
    for (const auto& [name, value] : named_scores(asked, scores)) {
      std::ranges::find(metrics, "common_" + name, &Metrics::value_type::first)->second = value;
    }
  }
  for (std::size_t i = 0, end = metrics.size(); i < end; ++i) {
    const auto [name, value] = metrics[i];
    if (name.starts_with(kDeciding))
      metrics.emplace_back(name.substr(std::strlen(kDeciding)), value);
  }
  return metrics;
}

bool compares_evaluations(const std::string& name) {
  return name == "improved" || name == "train_loss_fell";
}

std::string why_impossible(const std::string& name) {
  if (compares_evaluations(name)) {
    return "it compares two evaluations, and the job makes one";
  }
  if (name.find("auroc") != std::string::npos) {
    return "no client is evaluated on samples of both classes";
  }
  if (name.find("f1") != std::string::npos) return "no sample that is evaluated is of class 1";
  return "no sample that is evaluated has a label";
}

double deciding_value(const std::string& name, const Metrics& metrics) {
  double value = kNothing;
  for (const auto& [known, found] : metrics) {
    if (known == kDeciding + name) return found;
    if (known == name) value = found;
  }
  return value;
}

}  // namespace hanse
