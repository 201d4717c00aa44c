#include "hanse/run/predict.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "assemble/protocols.hpp"
#include "execute/execution.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/subnormals.hpp"
#include "hanse/base/text.hpp"
#include "hanse/evaluation/softmax.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/model/loss_rule.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/run_directory.hpp"
#include "predict/trained_model.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

double logistic(double z) {
  return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z));
}

// What a model says of a sample, or of a position of one, from its logits.
class Outputs {
 public:
  Outputs(const LossRule rule, const FeatureRecord& record) : rule_(rule), record_(record) {
    const LabelForm& form = record.labels;
    positions_ = form.is_sequence() ? form.values : 1;
    const bool one_logit = rule == LossRule::kBinaryLogistic && !form.multi_label;
    logits_ = one_logit ? 1 : form.classes > 0 ? form.classes : form.values;
  }

  int64_t positions() const { return positions_; }
  int64_t logits() const { return logits_; }  // of a position

  std::vector<std::string> names() const {
    const LabelForm& form = record_.labels;
    const int64_t scored = form.scored_classes();
    std::vector<std::string> names;
    for (int64_t k = 0; k < (scored > 0 ? scored : form.values); ++k) {
      names.push_back(
          fmt::format("{}{}", scored > 0 ? "p_" : "predicted_", output_name(record_, k)));
    }
    if (scored == 0 && form.values == 1) names = {"predicted"};
    return names;
  }

  // ",0.25,0.75" of the logits of a position.
  std::string text(std::span<const float> z) const {
    if (rule_ == LossRule::kSquaredError) return fmt::format(",{}", fmt::join(z, ","));
    return fmt::format(",{}", fmt::join(probabilities(z), ","));
  }

 private:
  std::vector<double> probabilities(std::span<const float> z) const {
    std::vector<double> p(z.begin(), z.end());
    if (rule_ != LossRule::kBinaryLogistic) {
      softmax(z, p);
    } else {
      if (logits_ == 1 && !record_.labels.multi_label) p.insert(p.begin(), -p.front());
      for (double& value : p) value = logistic(value);
    }
    return p;
  }

  LossRule rule_;
  const FeatureRecord& record_;
  int64_t positions_, logits_;
};

// The table, piece by piece.
class Predictions {
 public:
  Predictions(TrainedModel& trained, NewSamples& samples, const Outputs& outputs,
              const FeatureRecord& record)
      : trained_(trained),
        samples_(samples),
        outputs_(outputs),
        width_(size_of(record.shape)),
        label_values_(record.labels.values),
        whole_(trained.model->whole_numbers()) {}

  // The next piece; empty behind the last one.
  std::string next() {
    if (!std::exchange(has_header_, true)) return header();
    read();
    if (texts_.empty()) return "";
    const auto rows = std::ssize(texts_);
    const int64_t each = outputs_.positions() * outputs_.logits();
    logits_.resize(to_index(rows * each));
    const std::vector<int32_t> labels(to_index(rows * label_values_), 0);
    const std::vector<float> targets(labels.size(), 0.0F);
    const Batch batch{.features = values_.data(),
                      .labels = labels.data(),
                      .targets = targets.data(),
                      .rows = rows};
    {
      const FlushSubnormals flush;
      trained_.model->evaluate(trained_.row, batch, {.outputs = logits_.data(), .values = each});
    }
    std::string text;
    for (int64_t r = 0; r < rows; ++r) text += lines(r);
    return text;
  }

  int64_t rows() const { return rows_; }

 private:
  std::string header() const {
    std::vector<std::string> names = samples_.names();
    if (outputs_.positions() > 1) names.emplace_back("position");
    const auto more = outputs_.names();
    names.insert(names.end(), more.begin(), more.end());
    std::set<std::string> seen;
    for (std::string& name : names) {
      if (!seen.insert(name).second) {
        throw InvalidArgument(fmt::format("the column '{}' would stand twice in the output", name),
                              "", "rename it in the table");
      }
      name = csv_field(name);
    }
    return join(names, ",") + "\n";
  }

  void read() {
    const int64_t most = std::max<int64_t>(1, trained_.model->evaluation_rows());
    values_.resize(to_index(most * width_));
    texts_.clear();
    std::vector<std::string> texts;
    while (std::ssize(texts_) < most) {
      const std::span<float> own(values_.data() + std::ssize(texts_) * width_, to_index(width_));
      if (!samples_.next(own, texts)) break;
      check(own);
      std::string line;
      for (std::string& text : texts) text = csv_field(text);
      texts_.push_back(join(texts, ","));
    }
  }

  void check(std::span<const float> sample) const {
    for (const WholeNumbers& whole : whole_) {
      const int64_t last = std::min(whole.last, width_);
      const auto own = sample.subspan(to_index(whole.first), to_index(last - whole.first));
      const auto wrong = std::ranges::find_if_not(own, [&](float x) { return whole.hold(x); });
      if (wrong == own.end()) continue;
      throw InvalidArgument(fmt::format("sample {} has the value {}, {}",
                                        rows_ + std::ssize(texts_), *wrong, whole.what),
                            whole.key, whole.hint);
    }
  }

  std::string lines(int64_t row) {
    std::string text;
    const auto logits = to_index(outputs_.logits());
    for (int64_t p = 0; p < outputs_.positions(); ++p) {
      text += texts_[to_index(row)];
      if (outputs_.positions() > 1) text += fmt::format(",{}", p);
      const std::size_t first = to_index(row * outputs_.positions() + p) * logits;
      text += outputs_.text(std::span<const float>(logits_).subspan(first, logits)) + "\n";
    }
    ++rows_;
    return text;
  }

  TrainedModel& trained_;
  NewSamples& samples_;
  const Outputs& outputs_;
  int64_t width_, label_values_;
  std::vector<WholeNumbers> whole_;
  std::vector<float> values_;       // [rows, width]
  std::vector<std::string> texts_;  // [rows] in front of the outputs
  std::vector<float> logits_;       // [rows, positions, logits]
  bool has_header_ = false;
  int64_t rows_ = 0;
};

FeatureRecord record_of_run(const std::string& run) {
  const std::string path = run + "/" + RunDirectory::kFeatures;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    throw InvalidArgument("the run has no features.csv, by which new data are prepared", run,
                          "bandits have none, nor runs of older versions: `hanse resume` of one "
                          "of these writes it");
  }
  return read_features(text.str(), path);
}

void say_whose(const Job& job, const FeatureRecord& record, const std::string& client) {
  const bool has_own = keeps_own_tensors(job);
  if (client.empty() && has_clusters(job)) {
    notice(
        "clusters have copies of tensors in this run: --cluster=N takes another copy than 0, and "
        "--client=NAME a client's");
  } else if (client.empty() && has_own) {
    notice(
        "clients have tensors of their own in this run: the shared model predicts; "
        "--client=NAME takes those of a client");
  }
  if (!client.empty() && !has_own && !record.is_by_client()) {
    notice("--client changes nothing: the run has one model for all, and one preparation");
  }
}

}  // namespace

void bind_predict(OptionTable& table, PredictQuery& query) {
  table.add("client", query.client,
            "client whose own tensors, fillings, means and deviations are taken");
  table.add("cluster", query.cluster, at_least(0),
            "cluster whose copy of client.clustered is taken");
  table.add("model", query.model,
            "best, model or averaged (the file of the run), or a file; auto: best if there is one");
  table.add("out", query.out, "file for the table; empty: stdout");
  table.add("unknown", query.unknown, "a category that the run does not know: refuse or missing");
}

std::string predict_run(const std::string& run, const std::string& data, const PredictQuery& query,
                        const std::function<void(std::string_view)>& print) {
  check_run_directory(run);
  KeyedJob job(catalog());
  load_job(run + "/job.cfg", {}, job);
  const FeatureRecord record = record_of_run(run);
  const bool own = !query.client.empty() && keeps_own_tensors(job);
  const std::string choice = own && query.model == "auto" ? "model" : query.model;
  const std::string file = chosen_file(run, choice);
  if (!query.client.empty()) number_of_client(run, query.client);
  const Preparation& preparation = preparation_of(record, query.client);
  job.data.path = data;
  const auto samples = open_new_samples(job.data, record, preparation, query.unknown);
  TrainedModel trained = read_trained(job, record, file);
  take_copy(query.cluster, trained);
  if (own) take_own_tensors(job, run, query.client, trained);
  say_whose(job, record, query.client);
  const Outputs outputs(value_of<LossRule>(job.model.loss).value(), record);
  Predictions predictions(trained, *samples, outputs, record);
  if (!query.out.empty()) {
    write_file(query.out, [&] { return predictions.next(); });
    return fmt::format("{}: {} samples, by {}\n", query.out, predictions.rows(), file);
  }
  for (std::string piece = predictions.next(); !piece.empty(); piece = predictions.next()) {
    print(piece);
  }
  return "";
}

}  // namespace hanse
