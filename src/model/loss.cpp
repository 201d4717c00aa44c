#include "loss.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr int64_t kBlock = 64;  // rows whose sums stand on the stack

// The polynomial in x with these coefficients, the highest power's first.
template <class T, class... Rest>
inline T polynomial(T x, T first, Rest... rest) {
  ((first = first * x + rest), ...);
  return first;
}

// e^x for x <= 0, relative error below 2e-7; e^-87 below -87. Branch-free, so that loops vectorize.
// Cephes expf: e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2. NaN stays NaN.
inline float exp_nonpositive(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  const float p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                             4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  const float mantissa = p * (r * r) + r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u;
  return mantissa * std::bit_cast<float>(exponent);  // 2^n e^r
}

// ln x for x >= 1, relative error below 1e-15. ln x = k ln 2 + 2 artanh((m - 1) / (m + 1)),
// x = 2^k m with m in [sqrt(1/2), sqrt(2)). NaN stays NaN.
inline double log_from_one(double x) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdull;  // bits of sqrt(1/2)
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t k = (bits - kRootHalf) >> 52;
  const double m = std::bit_cast<double>(bits - (k << 52));
  const double exponent = std::bit_cast<double>(k | 0x4330000000000000ull) - 0x1p52;
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  const double p = polynomial(s2, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                              1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  const double artanh = s + s * s2 * p;
  return exponent * 0.6931471805599453 + 2.0 * artanh + (x - x);  // x - x carries NaN and Inf on
}

// Joins n values by `join`, from `start` on, in four lanes whatever the vector width.
template <class Join>
inline float join_lanes(const float* values, int64_t n, float start, Join join) {
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
double cross_entropy_block(const int32_t* labels, int64_t rows, int64_t outputs,
                           float inverse_batch, float* z) {
  double sums[kBlock];
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

class CrossEntropy final : public Loss {
 public:
  using Loss::Loss;

  std::string name() const override { return "cross-entropy"; }

  double loss_and_delta(const Batch& batch, float* logits) const override {
    const float inverse_batch = 1.0f / static_cast<float>(batch.rows);
    double loss = 0;
    for (int64_t r = 0; r < batch.rows; r += kBlock) {
      loss += cross_entropy_block(batch.labels + r, std::min(kBlock, batch.rows - r), outputs(),
                                  inverse_batch, logits + r * outputs());
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

  int64_t count_correct(const Batch& batch, const float* logits) const override {
    int64_t correct = 0;
    for (int64_t r = 0; r < batch.rows; ++r, logits += outputs()) {
      const auto guess = std::max_element(logits, logits + outputs()) - logits;
      correct += guess == batch.labels[r] ? 1 : 0;
    }
    return correct;
  }
};

class BinaryLogistic final : public Loss {
 public:
  using Loss::Loss;

  std::string name() const override { return "binary-logistic"; }

  // loss = ln(1 + e^{-s z}) = max(z, 0) - y z + ln(1 + e^{-|z|}), delta = (sigma(z) - y) / B
  double loss_and_delta(const Batch& batch, float* z) const override {
    const float inverse_batch = 1.0f / static_cast<float>(batch.rows);
    double loss = 0;
    for (int64_t r = 0; r < batch.rows; ++r) {
      const float y = batch.labels[r] == 1 ? 1.0f : 0.0f;
      const float e = exp_nonpositive(-std::abs(z[r]));
      loss += static_cast<double>(std::max(z[r], 0.0f)) - static_cast<double>(y * z[r]) +
              log_from_one(1.0 + static_cast<double>(e));
      const float sigma = (z[r] >= 0.0f ? 1.0f : e) / (1.0f + e);
      z[r] = (sigma - y) * inverse_batch;
    }
    return loss;
  }

  // sigma = B delta + y;  d delta = sigma (1 - sigma) dz / B
  void delta_tangent(const Batch& batch, const float* delta, float* tangent) const override {
    const auto b = static_cast<float>(batch.rows);
    for (int64_t r = 0; r < batch.rows; ++r) {
      const float sigma = b * delta[r] + (batch.labels[r] == 1 ? 1.0F : 0.0F);
      tangent[r] *= sigma * (1.0F - sigma) / b;
    }
  }

  int64_t count_correct(const Batch& batch, const float* z) const override {
    int64_t correct = 0;
    for (int64_t r = 0; r < batch.rows; ++r) {
      correct += (z[r] > 0.0f ? 1 : 0) == batch.labels[r] ? 1 : 0;
    }
    return correct;
  }
};

class SquaredError final : public Loss {
 public:
  using Loss::Loss;

  std::string name() const override { return "squared-error"; }

  // loss = (z - y)^2 / 2, delta = (z - y) / B
  double loss_and_delta(const Batch& batch, float* z) const override {
    const float inverse_batch = 1.0f / static_cast<float>(batch.rows);
    double loss = 0;
    for (int64_t r = 0; r < batch.rows; ++r) {
      const double error = static_cast<double>(z[r]) - static_cast<double>(batch.targets[r]);
      loss += 0.5 * error * error;
      z[r] = static_cast<float>(error) * inverse_batch;
    }
    return loss;
  }

  // d delta = dz / B
  void delta_tangent(const Batch& batch, const float*, float* tangent) const override {
    const auto b = static_cast<float>(batch.rows);
    for (int64_t r = 0; r < batch.rows; ++r) tangent[r] /= b;
  }
};

}  // namespace

int64_t Loss::count_correct(const Batch&, const float*) const { return 0; }

namespace {

// Of one sample with several logits.
int32_t rank_of(std::span<const float> z, int32_t label) {
  const auto own = static_cast<std::size_t>(label);
  int32_t rank = 0;
  for (std::size_t k = 0; k < own; ++k) rank += !(z[k] < z[own]) ? 1 : 0;
  for (std::size_t k = own + 1; k < z.size(); ++k) rank += !(z[k] <= z[own]) ? 1 : 0;
  return rank;
}

// Not the label.
int32_t class_of(std::span<const float> z, int32_t label) {
  std::size_t best = label == 0 ? 1 : 0;
  for (std::size_t k = best + 1; k < z.size(); ++k) {
    if (k == to_index(label) || std::isnan(z[best]) || z[k] <= z[best]) continue;
    best = k;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

EvaluationSums Loss::evaluate(const Batch& batch, float* logits, SampleResults results) const {
  EvaluationSums sums{.correct = static_cast<double>(count_correct(batch, logits)),
                      .samples = batch.rows};
  for (int64_t r = 0; results.scores != nullptr && r < batch.rows; ++r) {
    const float* z = logits + r * outputs_;
    results.scores[r] = outputs_ == 1 ? z[0] : z[1] - z[0];
  }
  for (int64_t r = 0; (results.ranks || results.classes) && r < batch.rows; ++r) {
    const std::span<const float> z(logits + r * outputs_, static_cast<std::size_t>(outputs_));
    const int32_t label = batch.labels[r];
    const int32_t rank = outputs_ > 1 ? rank_of(z, label) : (z[0] > 0) == (label == 1) ? 0 : 1;
    if (results.ranks) results.ranks[r] = rank;
    if (!results.classes) continue;
    const int32_t other = outputs_ > 1 ? class_of(z, label) : 1 - label;
    results.classes[r] = rank == 0 ? label : other;
  }
  sums.loss = loss_and_delta(batch, logits);
  return sums;
}

LossPtr make_loss(const std::string& name, int64_t classes) {
  if (name == "cross-entropy") {
    if (classes >= 2) return std::make_shared<CrossEntropy>(classes);
    throw InvalidArgument(
        "cross-entropy needs two classes or more, the data has " + std::to_string(classes),
        "model.loss", classes == 0 ? "squared-error is for regression" : "");
  }
  if (name == "binary-logistic") {
    if (classes == 2) return std::make_shared<BinaryLogistic>(1);
    throw InvalidArgument(
        "binary-logistic needs two classes, the data has " + std::to_string(classes), "model.loss");
  }
  if (name == "squared-error") {
    if (classes == 0) return std::make_shared<SquaredError>(1);
    throw InvalidArgument("squared-error needs regression targets, the data has " +
                              std::to_string(classes) + " classes",
                          "model.loss", "cross-entropy is for classes");
  }
  throw InvalidArgument("unknown model.loss \"" + name + "\"", "model.loss",
                        "known: cross-entropy, binary-logistic, squared-error");
}

}  // namespace hanse
