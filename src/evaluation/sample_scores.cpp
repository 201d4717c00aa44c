#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "class_scores.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/evaluation/asked_metrics.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "evaluate.metrics";

// A sample whose label is classes: where they stand in the order of the model's scores.
struct RankedSample {
  std::span<const int32_t> ranks;  // from 0, ascending; of one class, or of several labels
  int64_t taken = 0;               // several labels: classes with a score above 0 ...
  int64_t taken_right = 0;         // ... and those of them that are the sample's

  auto first(int64_t k) const {  // how many are among the first k
    return std::ranges::lower_bound(ranks, static_cast<int32_t>(std::min<int64_t>(k, INT32_MAX))) -
           ranks.begin();
  }
};

double discount(int64_t rank) { return 1 / std::log2(static_cast<double>(rank) + 2); }

// The scores of a sample without labels are not defined: it adds nothing.
ScoreSum hit_rate(const RankedSample& sample, int64_t k) {
  return {sample.first(k) > 0 ? 1.0 : 0.0, 1};
}

ScoreSum recall(const RankedSample& sample, int64_t k) {
  return {static_cast<double>(sample.first(k)) / static_cast<double>(sample.ranks.size()), 1};
}

// Gain 1 of each class of the sample, against that of the best order (Jarvelin and Kekalainen
// 2002).
ScoreSum ndcg(const RankedSample& sample, int64_t k) {
  double gain = 0, best = 0;
  for (int64_t i = 0; i < std::min(k, std::ssize(sample.ranks)); ++i) {
    best += discount(i);
    if (sample.ranks[to_index(i)] < k) gain += discount(sample.ranks[to_index(i)]);
  }
  return {gain / best, 1};
}

ScoreSum reciprocal_rank(const RankedSample& sample, int64_t) {
  return {1 / (static_cast<double>(sample.ranks.front()) + 1), 1};
}

// Mean over the sample's classes of the precision down to each.
ScoreSum average_precision(const RankedSample& sample, int64_t) {
  double sum = 0;
  for (std::size_t i = 0; i < sample.ranks.size(); ++i) {
    sum += static_cast<double>(i + 1) / (static_cast<double>(sample.ranks[i]) + 1);
  }
  return {sum / static_cast<double>(sample.ranks.size()), 1};
}

// 2 TP / (2 TP + FP + FN) over all samples and classes; samples without labels count, too.
ScoreSum micro_f1(const RankedSample& sample, int64_t) {
  return {2 * static_cast<double>(sample.taken_right),
          static_cast<double>(sample.taken) + static_cast<double>(sample.ranks.size())};
}

ScoreSum squared_error(double z, double y) { return {(z - y) * (z - y), 1}; }
ScoreSum absolute_error(double z, double y) { return {std::abs(z - y), 1}; }

// A sum over samples has one of the first three functions; without any function it is of the loss.
struct ScoreKind {
  const char* name;    // in the job file
  const char* column;  // in tables
  ScoreSum (*of_classes)(const RankedSample& sample, int64_t k) = nullptr;
  ScoreSum (*of_numbers)(double z, double y) = nullptr;
  ScoreSum (*of_probabilities)(const ClassScores& samples) = nullptr;
  ScoreSum (*of_all)(const ClassScores& samples) = nullptr;  // needs all samples at once
  bool at_k = false;
  int64_t least_classes = 0;
  bool of_positions = true;       // a class for each
  bool of_one_class = true;       // or a class a position
  bool of_several_labels = true;  // of classes
  bool needs_labels = true;       // of a sample with several or none
  bool small_is_better = false;
};

constexpr ScoreKind kScores[] = {
    {.name = "hit-rate", .column = "hit_rate", .of_classes = hit_rate, .at_k = true},
    {.name = "recall",
     .column = "recall",
     .of_classes = recall,
     .at_k = true,
     .of_one_class = false},
    {.name = "ndcg", .column = "ndcg", .of_classes = ndcg, .at_k = true},
    {.name = "mrr", .column = "mrr", .of_classes = reciprocal_rank},
    {.name = "average-precision",
     .column = "average_precision",
     .of_classes = average_precision,
     .of_one_class = false},
    {.name = "micro-f1",
     .column = "micro_f1",
     .of_classes = micro_f1,
     .of_one_class = false,
     .needs_labels = false},
    {.name = "perplexity",
     .column = "perplexity",
     .of_several_labels = false,
     .small_is_better = true},
    {.name = "brier",
     .column = "brier",
     .of_probabilities = brier,
     .of_positions = false,
     .of_several_labels = false,
     .small_is_better = true},
    {.name = "ece",
     .column = "ece",
     .of_all = calibration_error,
     .of_positions = false,
     .of_several_labels = false,
     .small_is_better = true},
    {.name = "auprc",
     .column = "auprc",
     .of_all = average_precision_of_classes,
     .of_positions = false,
     .of_several_labels = false},
    {.name = "auroc-macro",
     .column = "auroc_macro",
     .of_all = macro_auroc,
     .least_classes = 3,
     .of_positions = false,
     .of_several_labels = false},
    {.name = "auroc-prevalence",
     .column = "auroc_prevalence",
     .of_all = prevalence_auroc,
     .least_classes = 3,
     .of_positions = false,
     .of_several_labels = false},
    {.name = "mse", .column = "mse", .of_numbers = squared_error, .small_is_better = true},
    {.name = "mae", .column = "mae", .of_numbers = absolute_error, .small_is_better = true},
};

const ScoreKind& kind_of(const SampleScore& score) { return kScores[score.kind]; }

bool is_of_loss(const ScoreKind& kind) {
  return !kind.of_classes && !kind.of_numbers && !kind.of_probabilities && !kind.of_all;
}

bool is_of_probabilities(const ScoreKind& kind) { return kind.of_probabilities || kind.of_all; }

std::string name_of(const SampleScore& score) {
  const ScoreKind& kind = kind_of(score);
  return kind.at_k ? fmt::format("{}@{}", kind.name, score.k) : kind.name;
}

// A sample's classes in the order of its scores: the first of equal ones, and NaN before all.
struct Ranking {
  std::vector<int32_t> order, ranks;

  RankedSample operator()(std::span<const float> z, std::span<const float> marks) {
    order.resize(z.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
      const float x = z[to_index(a)], y = z[to_index(b)];
      return std::isnan(x) ? !std::isnan(y) : x > y;
    });
    ranks.clear();
    RankedSample sample;
    for (std::size_t place = 0; place < order.size(); ++place) {
      const std::size_t label = to_index(order[place]);
      const bool own = marks[label] == 1;
      if (own) ranks.push_back(static_cast<int32_t>(place));
      if (!(z[label] > 0)) continue;
      ++sample.taken;
      if (own) ++sample.taken_right;
    }
    sample.ranks = ranks;
    return sample;
  }
};

// Calls work(place, score, kind) for each score that is asked for.
template <class Work>
void for_each_score(const SampleScores& scores, Work work) {
  for (std::size_t i = 0; i < scores.size() && scores[i].kind >= 0; ++i) {
    work(i, scores[i], kind_of(scores[i]));
  }
}

void add_ranked(const SampleScores& scores, const RankedSample& sample, ScoreSums& sums) {
  for_each_score(scores, [&](std::size_t i, const SampleScore& score, const ScoreKind& kind) {
    if (kind.of_classes == nullptr || (kind.needs_labels && sample.ranks.empty())) return;
    sums[i] += kind.of_classes(sample, score.k);
  });
}

}  // namespace

std::optional<SampleScore> sample_score(const std::string& text) {
  const std::size_t at = text.find('@');
  const auto found = std::ranges::find_if(
      kScores, [&](const ScoreKind& kind) { return text.substr(0, at) == kind.name; });
  if (found == std::end(kScores)) return std::nullopt;
  SampleScore score{.kind = found - std::begin(kScores)};
  const char* digits = text.data() + std::min(at, text.size() - 1) + 1;
  const char* last = text.data() + text.size();
  const auto [end, code] = std::from_chars(digits, last, score.k);
  const bool has_k = at != std::string::npos && code == std::errc() && end == last && score.k >= 1;
  if (found->at_k ? has_k : at == std::string::npos) return score;
  throw InvalidArgument(fmt::format("'{}' is no metric", text), kKey,
                        found->at_k ? fmt::format("write {}@5, of the first 5 classes", found->name)
                                    : fmt::format("{} has no @", found->name));
}

std::vector<std::string> sample_score_names() {
  std::vector<std::string> names;
  for (const ScoreKind& kind : kScores) {
    names.push_back(std::string(kind.name) + (kind.at_k ? "@k" : ""));
  }
  return names;
}

std::string score_column(const SampleScore& score) {
  const ScoreKind& kind = kind_of(score);
  return kind.at_k ? fmt::format("{}_at_{}", kind.column, score.k) : kind.column;
}

bool is_small_better_score(const std::string& name) {
  const std::string words = "_" + name + "_";
  return std::ranges::any_of(kScores, [&](const ScoreKind& kind) {
    return kind.small_is_better &&
           words.find(fmt::format("_{}_", kind.column)) != std::string::npos;
  });
}

void check_sample_score(const SampleScore& score, const LabelForm& labels) {
  const ScoreKind& kind = kind_of(score);
  const std::string name = name_of(score);
  const auto refuse = [&](const std::string& needed, const std::string& hint) {
    throw InvalidArgument(fmt::format("{} is of {}", name, needed), kKey, hint);
  };
  const int64_t classes = labels.scored_classes();
  if (kind.of_numbers != nullptr) {
    if (classes > 0) refuse("regression, and the data have classes", "leave it out");
    return;
  }
  if (classes == 0) refuse("classes, and the data are for regression", "mse and mae are for them");
  if (labels.multi_label && !kind.of_several_labels) {
    refuse("one class a sample or position", "recall@5 and average-precision are of several");
  }
  if (labels.is_sequence() && !kind.of_positions) {
    refuse("one class a sample", "perplexity and hit-rate@5 are of a class a position, too");
  }
  if (classes < kind.least_classes) {
    refuse(fmt::format("{} classes or more", kind.least_classes),
           "auroc of two classes comes on its own");
  }
  if (!labels.multi_label && !kind.of_one_class) {
    refuse("several labels a sample", "of one class hit-rate@5 and mrr say the same");
  }
  const bool all_count = kind.of_classes == ndcg ? score.k > classes : score.k >= classes;
  if (kind.at_k && all_count) {
    refuse(fmt::format("the first {} of {} classes, which are all", score.k, classes),
           "use a smaller k");
  }
}

ScoredSamples::ScoredSamples(const AskedMetrics& asked, const LabelForm& labels, int64_t samples,
                             bool wants_ranks, bool wants_auroc)
    : values(labels.values), width(said_values(labels)) {
  const bool wanted = asked.scores[0].kind >= 0;
  const bool says = asked.sample_table || std::ranges::any_of(asked.scores, [](SampleScore score) {
                      return score.kind >= 0 && is_of_probabilities(kind_of(score));
                    });
  if (labels.classes > 0 && (wanted || wants_ranks)) ranks.resize(to_index(samples * values));
  if (labels.classes == 0 && (wanted || says)) outputs.resize(to_index(samples * width));
  if (labels.classes > 2 && says) outputs.resize(to_index(samples * width));
  if (labels.classes == 2 && values == 1 && (says || wants_auroc)) scores.resize(to_index(samples));
}

SampleResults ScoredSamples::results() {
  const auto or_null = [](auto& all) { return all.empty() ? nullptr : all.data(); };
  return {.scores = or_null(scores),
          .ranks = or_null(ranks),
          .outputs = or_null(outputs),
          .values = values,
          .logits = width};
}

ScoreSums sum_scores(const SampleScores& scores, const Federation& federation, SampleRange range,
                     const ScoredSamples& found, double loss) {
  ScoreSums sums;
  const LabelForm labels = federation.label_form();
  const std::size_t each = to_index(labels.values);
  const auto samples = static_cast<double>(range.size());
  for_each_score(scores, [&](std::size_t i, const SampleScore&, const ScoreKind& kind) {
    if (is_of_loss(kind)) sums[i] = {loss, samples};
    if (!kind.of_probabilities) return;
    sums[i] = kind.of_probabilities({labels_of(federation, range), found.said(), labels.classes});
  });
  for (const int32_t& rank : found.ranks) {
    if (rank >= 0) add_ranked(scores, {.ranks = {&rank, 1}}, sums);
  }
  if (found.outputs.empty() || labels.classes > 0) return sums;
  const std::span<const float> all(found.outputs);
  const auto targets = federation.targets().subspan(to_index(range.begin) * each, all.size());
  Ranking ranking;
  for (std::size_t i = 0; labels.multi_label && i < all.size(); i += each) {
    add_ranked(scores, ranking(all.subspan(i, each), targets.subspan(i, each)), sums);
  }
  for (std::size_t i = 0; !labels.multi_label && i < all.size(); ++i) {
    for_each_score(scores, [&](std::size_t s, const SampleScore&, const ScoreKind& kind) {
      sums[s] += kind.of_numbers(static_cast<double>(all[i]), static_cast<double>(targets[i]));
    });
  }
  return sums;
}

bool needs_whole_range(const SampleScores& scores) {
  return std::ranges::any_of(
      scores, [](SampleScore score) { return score.kind >= 0 && kind_of(score).of_all; });
}

void add_whole_scores(const SampleScores& scores, const Federation& federation, SampleRange range,
                      std::span<const float> said, ScoreSums& sums) {
  for_each_score(scores, [&](std::size_t i, const SampleScore&, const ScoreKind& kind) {
    if (!kind.of_all) return;
    sums[i] = kind.of_all({labels_of(federation, range), said, federation.classes()});
  });
}

double score_value(const SampleScore& score, const ScoreSum& sum) {
  const double value = sum.part / sum.whole;  // 0/0: NaN
  return is_of_loss(kind_of(score)) ? std::exp(value) : value;
}

}  // namespace hanse
