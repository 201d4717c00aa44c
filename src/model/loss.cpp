#include "loss.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/processor.hpp"
#include "hanse/model/loss_math.hpp"

namespace hanse {

namespace {

// Joins n values by `join`, from `start` on, in four lanes whatever the vector width.
template <class Join>
[[gnu::always_inline]] inline float join_lanes(const float* values, int64_t n, float start,
                                               Join join) {
  float lane[] = {start, start, start, start};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t j = 0; j < 4; ++j) lane[j] = join(lane[j], values[i + j]);
  }
  for (; i < n; ++i) lane[0] = join(lane[0], values[i]);
  return join(join(lane[0], lane[1]), join(lane[2], lane[3]));
}

constexpr auto larger = [](float a, float b) { return std::max(a, b); };

// loss = ln(sum_c e^{z_c - m}) - (z_y - m), delta_c = (softmax(z)_c - [c = y]) / B
// Inlined into functions of different instruction sets, which round each operation alike.
[[gnu::always_inline]] inline double find_cross_entropies(const int32_t* labels, int64_t rows,
                                                          int64_t outputs, float inverse_batch,
                                                          float* z) {
  double sums[kLossRows];
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    float* row = z + r * outputs;
    const float largest = join_lanes(row, outputs, row[0], larger);
    for (int64_t c = 0; c < outputs; ++c) row[c] -= largest;
    loss -= static_cast<double>(row[labels[r]]);
  }
  for (int64_t i = 0; i < rows * outputs; ++i) z[i] = exp_nonpositive(z[i]);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = z + r * outputs;
    const float sum = join_lanes(row, outputs, 0.0f, std::plus<>());
    sums[r] = static_cast<double>(sum);
    const float factor = inverse_batch / sum;
    for (int64_t c = 0; c < outputs; ++c) row[c] *= factor;
    row[labels[r]] -= inverse_batch;
  }
  for (int64_t r = 0; r < rows; ++r) sums[r] = log_from_one(sums[r]);
  for (int64_t r = 0; r < rows; ++r) loss += sums[r];
  return loss;
}

double cross_entropies_plain(const int32_t* labels, int64_t rows, int64_t outputs,
                             float inverse_batch, float* z) {
  return find_cross_entropies(labels, rows, outputs, inverse_batch, z);
}
#if defined(__x86_64__)
HANSE_AVX2 double cross_entropies_avx2(const int32_t* labels, int64_t rows, int64_t outputs,
                                       float inverse_batch, float* z) {
  return find_cross_entropies(labels, rows, outputs, inverse_batch, z);
}
#endif

class CrossEntropy final : public Loss {
 public:
  using Loss::Loss;

  std::string name() const override { return name_of(LossRule::kCrossEntropy); }
  std::optional<LossRule> rule() const override { return LossRule::kCrossEntropy; }

  double loss_and_delta(const Batch& batch, float* logits) const override {
    const auto rows = static_cast<float>(batch.rows);
    if (positions() == 1) return sum_losses(batch.labels, batch.rows, 1.0f / rows, logits);
    double loss = 0;
    for (int64_t r = 0; r < batch.rows; ++r) {
      const int32_t* labels = batch.labels + r * positions();
      const int64_t labelled = positions() - std::count(labels, labels + positions(), -1);
      const float share = 1.0f / (rows * static_cast<float>(labelled));
      loss +=
          sum_labelled(labels, share, logits + r * this->logits()) / static_cast<double>(labelled);
    }
    return loss;
  }

  // p_c = B delta_c + [c = y];  d delta_c = p_c (dz_c - sum_k p_k dz_k) / B
  void delta_tangent(const Batch& batch, const float* delta, float* tangent) const override {
    const auto b = static_cast<float>(batch.rows);
    for (int64_t r = 0; r < batch.rows; ++r) {
      const float* d = delta + r * outputs();
      float* dz = tangent + r * outputs();
      const auto probability = [&](int64_t c) {
        return b * d[c] + (c == batch.labels[r] ? 1.0F : 0.0F);
      };
      float mean = 0;
      for (int64_t c = 0; c < outputs(); ++c) mean += probability(c) * dz[c];
      for (int64_t c = 0; c < outputs(); ++c) dz[c] = probability(c) * (dz[c] - mean) / b;
    }
  }

  double count_correct(const Batch& batch, const float* logits) const override {
    double correct = 0;
    const int32_t* label = batch.labels;
    for (int64_t r = 0; r < batch.rows; ++r) {
      int64_t right = 0, labelled = 0;
      for (int64_t p = 0; p < positions(); ++p, ++label, logits += outputs()) {
        const auto guess = std::max_element(logits, logits + outputs()) - logits;
        right += guess == *label ? 1 : 0;
        labelled += *label >= 0 ? 1 : 0;
      }
      correct += static_cast<double>(right) / static_cast<double>(labelled);
    }
    return correct;
  }

 private:
  double sum_losses(const int32_t* labels, int64_t rows, float share, float* logits) const {
    static const CrossEntropies kFastest = cross_entropies().front();
    double loss = 0;
    for (int64_t r = 0; r < rows; r += kLossRows) {
      loss += kFastest(labels + r, std::min(kLossRows, rows - r), outputs(), share,
                       logits + r * outputs());
    }
    return loss;
  }

  // Sums the losses of one sequence by runs of labelled positions; the deltas of others are 0.
  double sum_labelled(const int32_t* labels, float share, float* logits) const {
    double loss = 0;
    for (int64_t p = 0; p < positions();) {
      int64_t end = p + 1;
      while (end < positions() && (labels[end] < 0) == (labels[p] < 0)) ++end;
      float* z = logits + p * outputs();
      if (labels[p] < 0) {
        std::fill_n(z, (end - p) * outputs(), 0.0f);
      } else {
        loss += sum_losses(labels + p, end - p, share, z);
      }
      p = end;
    }
    return loss;
  }
};

class BinaryLogistic final : public Loss {
 public:
  using Loss::Loss;

  std::string name() const override { return name_of(LossRule::kBinaryLogistic); }
  std::optional<LossRule> rule() const override { return LossRule::kBinaryLogistic; }

  // loss = ln(1 + e^{-s z}) = max(z, 0) - y z + ln(1 + e^{-|z|}), delta = (sigma(z) - y) / B, both
  // over the outputs
  double loss_and_delta(const Batch& batch, float* z) const override {
    const int64_t values = batch.rows * outputs();
    const float inverse_batch = 1.0f / static_cast<float>(values);
    double loss = 0;
    for (int64_t r = 0; r < values; ++r) {
      const float y = is_of_class(batch, r) ? 1.0f : 0.0f;
      const float e = exp_nonpositive(-std::abs(z[r]));
      loss += static_cast<double>(std::max(z[r], 0.0f)) - static_cast<double>(y * z[r]) +
              log_from_one(1.0 + static_cast<double>(e));
      const float sigma = (z[r] >= 0.0f ? 1.0f : e) / (1.0f + e);
      z[r] = (sigma - y) * inverse_batch;
    }
    return loss / static_cast<double>(outputs());
  }

  // sigma = B delta + y;  d delta = sigma (1 - sigma) dz / B
  void delta_tangent(const Batch& batch, const float* delta, float* tangent) const override {
    const int64_t values = batch.rows * outputs();
    const auto b = static_cast<float>(values);
    for (int64_t r = 0; r < values; ++r) {
      const float sigma = b * delta[r] + (is_of_class(batch, r) ? 1.0F : 0.0F);
      tangent[r] *= sigma * (1.0F - sigma) / b;
    }
  }

  double count_correct(const Batch& batch, const float* z) const override {
    int64_t correct = 0;
    for (int64_t r = 0; batch.labels && r < batch.rows; ++r) {
      correct += (z[r] > 0.0f ? 1 : 0) == batch.labels[r] ? 1 : 0;
    }
    return static_cast<double>(correct);
  }

 private:
  // Is it class 1 of two, or one of several labels?
  static bool is_of_class(const Batch& batch, int64_t i) {
    return batch.labels ? batch.labels[i] == 1 : batch.targets[i] == 1.0f;
  }
};

class SquaredError final : public Loss {
 public:
  using Loss::Loss;

  std::string name() const override { return name_of(LossRule::kSquaredError); }
  std::optional<LossRule> rule() const override { return LossRule::kSquaredError; }

  // loss = (z - y)^2 / 2, delta = (z - y) / B, both over the outputs
  double loss_and_delta(const Batch& batch, float* z) const override {
    const int64_t values = batch.rows * outputs();
    const float inverse_batch = 1.0f / static_cast<float>(values);
    double loss = 0;
    for (int64_t r = 0; r < values; ++r) {
      const double error = static_cast<double>(z[r]) - static_cast<double>(batch.targets[r]);
      loss += 0.5 * error * error;
      z[r] = static_cast<float>(error) * inverse_batch;
    }
    return loss / static_cast<double>(outputs());
  }

  // d delta = dz / B
  void delta_tangent(const Batch& batch, const float*, float* tangent) const override {
    const int64_t values = batch.rows * outputs();
    const auto b = static_cast<float>(values);
    for (int64_t r = 0; r < values; ++r) tangent[r] /= b;
  }
};

// How many of one sample's logits rank before the label's.
int32_t rank_of(std::span<const float> z, int32_t label) {
  const auto own = static_cast<std::size_t>(label);
  int32_t rank = 0;
  for (std::size_t k = 0; k < own; ++k) rank += !(z[k] < z[own]) ? 1 : 0;
  for (std::size_t k = own + 1; k < z.size(); ++k) rank += !(z[k] <= z[own]) ? 1 : 0;
  return rank;
}

// The class of the largest logit but the label's.
int32_t class_of(std::span<const float> z, int32_t label) {
  std::size_t best = label == 0 ? 1 : 0;
  for (std::size_t k = best + 1; k < z.size(); ++k) {
    if (k == to_index(label) || std::isnan(z[best]) || z[k] <= z[best]) continue;
    best = k;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

double Loss::count_correct(const Batch&, const float*) const { return 0; }

void Loss::find_sample_losses(const Batch& batch, const float* logits, double* losses) const {
  const int64_t size = this->logits();
  std::vector<float> z(to_index(size));
  for (int64_t r = 0; r < batch.rows; ++r) {
    std::copy_n(logits + r * size, size, z.begin());
    const Batch one{.labels = batch.labels ? batch.labels + r * positions_ : nullptr,
                    .targets = batch.targets ? batch.targets + r * size : nullptr,
                    .rows = 1};
    losses[r] = loss_and_delta(one, z.data());
  }
}

EvaluationSums Loss::evaluate(const Batch& batch, float* logits, SampleResults results) const {
  EvaluationSums sums{.correct = count_correct(batch, logits), .samples = batch.rows};
  for (int64_t r = 0; results.scores != nullptr && r < batch.rows; ++r) {
    const float* z = logits + r * outputs_;
    results.scores[r] = outputs_ == 1 ? z[0] : z[1] - z[0];
  }
  if (results.outputs) std::copy_n(logits, batch.rows * this->logits(), results.outputs);
  const int64_t places = results.ranks || results.classes ? batch.rows * positions_ : 0;
  for (int64_t r = 0; r < places; ++r) {
    const std::span<const float> z(logits + r * outputs_, static_cast<std::size_t>(outputs_));
    const int32_t label = batch.labels[r];
    if (label < 0) {
      if (results.ranks) results.ranks[r] = -1;
      if (results.classes) results.classes[r] = -1;
      continue;
    }
    const int32_t rank = outputs_ > 1 ? rank_of(z, label) : (z[0] > 0) == (label == 1) ? 0 : 1;
    if (results.ranks) results.ranks[r] = rank;
    if (!results.classes) continue;
    const int32_t other = outputs_ > 1 ? class_of(z, label) : 1 - label;
    results.classes[r] = rank == 0 ? label : other;
  }
  sums.loss = loss_and_delta(batch, logits);
  return sums;
}

std::vector<CrossEntropies> cross_entropies() {
#if defined(__x86_64__)
  if (has_avx2()) return {cross_entropies_avx2, cross_entropies_plain};
#endif
  return {cross_entropies_plain};
}

LossPtr make_loss(const std::string& name, const LabelForm& labels) {
  const auto refuse = [&](const std::string& needed, const std::string& hint) {
    throw InvalidArgument(fmt::format("{} needs {}, the data has {}", name, needed, labels.text()),
                          "model.loss", hint);
  };
  const auto rule = value_of<LossRule>(name);
  if (!rule) {
    throw InvalidArgument("unknown model.loss \"" + name + "\"", "model.loss",
                          "known: " + join(names_of_all<LossRule>(), ", "));
  }
  switch (*rule) {
    case LossRule::kCrossEntropy:
      if (labels.classes >= 2) return std::make_shared<CrossEntropy>(labels.classes, labels.values);
      refuse("two classes or more", labels.multi_label    ? "binary-logistic is for several labels"
                                    : labels.classes == 0 ? "squared-error is for regression"
                                                          : "");
      break;
    case LossRule::kBinaryLogistic:
      if (labels.multi_label) return std::make_shared<BinaryLogistic>(labels.values);
      if (labels.classes == 2 && labels.values == 1) return std::make_shared<BinaryLogistic>(1);
      refuse("two classes, or several labels a sample", "");
      break;
    case LossRule::kSquaredError:
      if (labels.scored_classes() == 0) return std::make_shared<SquaredError>(labels.values);
      refuse("regression targets", labels.multi_label ? "binary-logistic is for several labels"
                                                      : "cross-entropy is for classes");
  }
  return nullptr;
}

void warn_of_activation(const std::string& last, const Loss& loss, const std::string& path) {
  if (last.empty() || loss.name() == "squared-error") return;
  warning(fmt::format(
      "the network ends with {}, and model.loss = {} applies its own to that ({}); hint: "
      "return the logits",
      last, loss.name(), path));
}

}  // namespace hanse
