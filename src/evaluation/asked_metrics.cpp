#include "hanse/evaluation/asked_metrics.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr int32_t kTop = 5;
constexpr int64_t kMostConfused = 1000;  // classes: a table of their square

struct AskedName {
  const char* name;  // in the job file
  bool AskedMetrics::*asked;
};

constexpr AskedName kAskedNames[] = {{"top5", &AskedMetrics::top5},
                                     {"balanced-accuracy", &AskedMetrics::balanced_accuracy},
                                     {"f1", &AskedMetrics::f1},
                                     {"classes", &AskedMetrics::classes},
                                     {"confusion", &AskedMetrics::confusion},
                                     {"lora-gap", &AskedMetrics::lora_gap}};

// What every evaluation has, where the data have it. Asking for it changes nothing.
constexpr AskedName kOwnNames[] = {{"auroc", &AskedMetrics::auroc},
                                   {"accuracy", &AskedMetrics::accuracy}};
constexpr const char* kLoss = "loss";  // of all data

double portion(int64_t part, int64_t all) {  // 0 of 0: NaN
  return static_cast<double>(part) / static_cast<double>(all);
}

double mean_recall(const RankCounts& counts) {
  double sum = 0;
  int64_t seen = 0;
  for (std::size_t k = 0; k < counts.samples.size(); ++k) {
    if (counts.samples[k] == 0) continue;
    sum += portion(counts.correct[k], counts.samples[k]);
    ++seen;
  }
  return sum / static_cast<double>(seen);
}

int64_t total_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

void add_to(std::vector<int64_t>& sums, const std::vector<int64_t>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

void add_score(const SampleScore& score, SampleScores& scores) {
  const auto free = std::ranges::find(scores, SampleScore());
  if (std::find(scores.begin(), free, score) != free) return;
  if (free == scores.end()) {
    throw InvalidArgument(fmt::format("more than {} metrics of samples", kMostScores),
                          "evaluate.metrics", "leave some out");
  }
  *free = score;
}

const AskedName* named(const std::string& name) {
  using Names = std::span<const AskedName>;
  for (const Names names : {Names(kAskedNames), Names(kOwnNames)}) {
    for (const AskedName& one : names) {
      if (one.name == name) return &one;
    }
  }
  return nullptr;
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  std::vector<std::string> known{kLoss};
  for (const AskedName& one : kOwnNames) known.emplace_back(one.name);
  for (const AskedName& one : kAskedNames) known.emplace_back(one.name);
  std::ranges::copy(sample_score_names(), std::back_inserter(known));
  throw InvalidArgument("unknown metric '" + name + "'", "evaluate.metrics",
                        suggestion(name, known));
}

// Refuses what comes on its own of other data alone.
void check_own(const AskedMetrics& asked, const LabelForm& labels) {
  if (asked.accuracy && labels.classes == 0) {
    throw InvalidArgument("accuracy is of one class a sample, the data have " + labels.text(),
                          "evaluate.metrics",
                          labels.multi_label ? "micro-f1 is of several labels" : "mse, mae");
  }
  if (asked.auroc && (labels.classes != 2 || labels.is_sequence())) {
    throw InvalidArgument("auroc is of two classes, the data have " + labels.text(),
                          "evaluate.metrics",
                          labels.classes > 2 ? "auroc-macro, auroc-prevalence" : "leave it out");
  }
}

// Refuses a table of the scores of samples that would have too many columns.
void check_table(const AskedMetrics& asked, const LabelForm& labels) {
  if (!asked.sample_table) return;
  if (labels.is_sequence()) {
    throw InvalidArgument("samples with a class for each position have no one score",
                          "evaluate.scores", "leave it false");
  }
  if (std::max(labels.classes, labels.values) > kMostConfused) {
    throw InvalidArgument(
        fmt::format("a table with a column for each of {} is too large", labels.text()),
        "evaluate.scores", fmt::format("it is of {} classes at most", kMostConfused));
  }
}

}  // namespace

AskedMetrics asked_metrics(const std::string& names, EvaluateOn on) {
  AskedMetrics asked{.on = on};
  for (const std::string& name : split_list(names)) {
    if (name.empty() || name == kLoss) continue;
    if (const auto score = sample_score(name)) {
      add_score(*score, asked.scores);
    } else if (const AskedName* found = named(name)) {
      asked.*found->asked = true;
    } else {
      refuse_unknown(name);
    }
  }
  return asked;
}

void check_asked(const AskedMetrics& asked, const LabelForm& labels) {
  check_own(asked, labels);
  check_table(asked, labels);
  const int64_t classes = labels.classes;
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw InvalidArgument(what, "evaluate.metrics", hint);
  };
  for (const SampleScore& score : asked.scores) {
    if (score.kind >= 0) check_sample_score(score, labels);
  }
  if (asked.of_one_class() && labels.multi_label) {
    refuse("samples with several labels have no one class to count", "recall@5, micro-f1");
  }
  if (asked.of_one_class() && classes == 0) {
    refuse("regression data have no classes to score", "mse and mae are for them");
  }
  if (asked.f1 && classes != 2) {
    refuse(fmt::format("f1 is of two classes, the data have {}", classes),
           "balanced-accuracy is of any number");
  }
  if (asked.confusion && classes > kMostConfused) {
    refuse(fmt::format("a table of {} x {} classes is too large", classes, classes),
           fmt::format("confusion is of {} classes at most", kMostConfused));
  }
  if (asked.top5 && classes <= kTop) {
    refuse(fmt::format("the label is always among five of {} classes", classes),
           "top5 needs six classes");
  }
}

RankCounts::RankCounts(std::span<const int32_t> labels, std::span<const int32_t> ranks,
                       int64_t classes)
    : samples(to_index(classes)), correct(to_index(classes)) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    ++samples[label];
    if (ranks[i] == 0) ++correct[label];
    if (ranks[i] < kTop) ++top5;
  }
}

RankCounts& RankCounts::operator+=(const RankCounts& more) {
  add_to(samples, more.samples);
  add_to(correct, more.correct);
  top5 += more.top5;
  return *this;
}

AskedScores asked_scores(const AskedMetrics& asked, const RankCounts& counts,
                         const ScoreSums& sums) {
  AskedScores scores;
  for (std::size_t i = 0; i < kMostScores; ++i) {
    if (asked.scores[i].kind >= 0) scores.more[i] = score_value(asked.scores[i], sums[i]);
  }
  const int64_t all = total_of(counts.samples);
  if (asked.top5) scores.top5 = portion(counts.top5, all);
  if (asked.balanced_accuracy) scores.balanced_accuracy = mean_recall(counts);
  if (asked.f1) {
    const int64_t wrong = all - total_of(counts.correct);  // FP + FN
    scores.f1 = portion(2 * counts.correct[1], 2 * counts.correct[1] + wrong);
  }
  return scores;
}

std::vector<std::pair<std::string, double>> named_scores(const AskedMetrics& asked,
                                                         const AskedScores& scores) {
  std::vector<std::pair<std::string, double>> named;
  if (asked.top5) named.emplace_back("top5", scores.top5);
  if (asked.balanced_accuracy) named.emplace_back("balanced_accuracy", scores.balanced_accuracy);
  if (asked.f1) named.emplace_back("f1", scores.f1);
  for (std::size_t i = 0; i < kMostScores && asked.scores[i].kind >= 0; ++i) {
    named.emplace_back(score_column(asked.scores[i]), scores.more[i]);
  }
  return named;
}

std::vector<std::pair<std::string, std::size_t>> score_places(const AskedMetrics& asked) {
  std::array<double, sizeof(AskedScores) / sizeof(double)> places;
  std::iota(places.begin(), places.end(), 0.0);
  std::vector<std::pair<std::string, std::size_t>> found;
  for (const auto& [name, place] : named_scores(asked, std::bit_cast<AskedScores>(places))) {
    found.emplace_back(name, static_cast<std::size_t>(place));
  }
  return found;
}

ClassCounts::ClassCounts(int64_t classes, const AskedMetrics& asked)
    : clients(to_index(classes)),
      samples(clients),
      correct(clients),
      confusion(to_index(asked.confusion ? classes * classes : 0)) {}

void ClassCounts::add(std::span<const int32_t> labels, std::span<const int32_t> taken_for) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0) ++confusion[to_index(labels[i]) * clients.size() + to_index(taken_for[i])];
  }
}

void ClassCounts::add(const RankCounts& client) {
  for (std::size_t k = 0; k < clients.size(); ++k) clients[k] += client.samples[k] > 0 ? 1 : 0;
  add_to(samples, client.samples);
  add_to(correct, client.correct);
}

std::string class_lines(const AskedMetrics& asked, ClassCounts counts, int64_t round,
                        Communicator& comm) {
  if (!asked.classes) return "";
  for (auto* sums : {&counts.clients, &counts.samples, &counts.correct}) {
    comm.reduce(std::span<int64_t>(*sums), ReduceOp::kSum, 0);
  }
  std::string lines;
  if (comm.rank() != 0) return lines;
  for (std::size_t k = 0; k < counts.samples.size(); ++k) {
    if (counts.samples[k] == 0) continue;
    lines += fmt::format("{},{},{},{},{:.9g}\n", round, k, counts.clients[k], counts.samples[k],
                         portion(counts.correct[k], counts.samples[k]));
  }
  return lines;
}

std::string confusion_text(const AskedMetrics& asked, ClassCounts counts, Communicator& comm) {
  if (!asked.confusion) return "";
  comm.reduce(std::span<int64_t>(counts.confusion), ReduceOp::kSum, 0);
  if (comm.rank() != 0) return "";
  std::string text = "label,predicted,samples\n";
  const std::size_t classes = counts.clients.size();
  for (std::size_t i = 0; i < counts.confusion.size(); ++i) {
    if (counts.confusion[i] == 0) continue;
    text += fmt::format("{},{},{}\n", i / classes, i % classes, counts.confusion[i]);
  }
  return text;
}

}  // namespace hanse
