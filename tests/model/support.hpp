// Samples and comparisons for the tests of the models.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/model/model.hpp"
#include "support/graph_file.hpp"

namespace hanse {

// Normal features (or uniform ones of so many tokens), uniform labels, normal targets; of sequences
// every third position has no label.
struct Samples {
  Samples(const std::vector<int64_t>& shape, const LabelForm& form, int64_t n_rows,
          uint64_t seed = 1, int64_t tokens = 0)
      : rows(n_rows) {
    RandomStream stream(seed, Purpose::kData);
    int64_t values = rows;
    for (const int64_t extent : shape) values *= extent;
    for (int64_t i = 0; i < values; ++i) {
      features.push_back(tokens > 0 ? static_cast<float>(stream.below(tokens))
                                    : static_cast<float>(stream.normal()));
    }
    for (int64_t i = 0; i < rows * form.values; ++i) {
      const bool none = form.is_sequence() && i % form.values % 3 == 2;
      if (form.classes > 0) {
        const auto drawn = static_cast<int32_t>(stream.below(form.classes));
        labels.push_back(none ? -1 : drawn);
      } else if (form.multi_label) {
        targets.push_back(static_cast<float>(stream.below(2)));
      } else {
        targets.push_back(static_cast<float>(stream.normal()));
      }
    }
  }
  Batch batch() const {
    return {features.data(), labels.empty() ? nullptr : labels.data(),
            targets.empty() ? nullptr : targets.data(), rows};
  }

  int64_t rows;
  std::vector<float> features;  // [rows, product of the shape]
  std::vector<int32_t> labels;  // [rows, values] or empty
  std::vector<float> targets;   // likewise
};

inline ModelOptions model_options(const std::string& kind, const std::string& loss,
                                  const std::vector<int64_t>& hidden = {200}) {
  ModelOptions options;
  options.kind = kind;
  options.loss = loss;
  options.hidden = hidden;
  return options;
}

// Options of a model as small as its kind gets.
inline ModelOptions small_options(const std::string& kind, const std::string& loss) {
  ModelOptions options = model_options(kind, loss, {7, 5});
  options.vocabulary = 11;
  options.embedding = 6;
  options.units = 5;
  options.heads = 2;
  options.channels = 4;
  if (kind == "graph") options.path = written(picture_graph());
  return options;
}

inline bool reads_tokens(const std::string& kind) {
  return kind == "lstm" || kind == "transformer";
}

// Samples that small_options() of the kind take, with three classes.
inline std::vector<int64_t> small_shape(const std::string& kind) {
  const int64_t side = kind == "cnn-byzfl" ? 16 : 12;
  return reads_tokens(kind) ? std::vector<int64_t>{12} : std::vector<int64_t>{1, side, side};
}

inline int64_t classes_for(const std::string& loss, int64_t classes) {
  if (loss == "squared-error") return 0;
  return loss == "binary-logistic" ? 2 : classes;
}

inline std::vector<float> initial_row(const Model& model, uint64_t seed = 1) {
  std::vector<float> row(static_cast<std::size_t>(model.n_params()));
  RandomStream stream(seed, Purpose::kInitialize);
  model.initialize(row, stream);
  return row;
}

inline RandomStream noise_stream(uint64_t client = 0) {
  return RandomStream(1, Purpose::kDropout, 0, client);
}

struct LossAndGradient {
  double loss = 0;              // mean over the batch
  std::vector<float> gradient;  // [P]
};

inline LossAndGradient loss_and_gradient(Model& model, const std::vector<float>& row,
                                         const Batch& batch, uint64_t client = 0) {
  LossAndGradient result;
  result.gradient.assign(row.size(), std::numeric_limits<float>::quiet_NaN());  // all is written
  RandomStream noise = noise_stream(client);
  result.loss = model.loss_and_gradient(row, batch, noise, result.gradient);
  return result;
}

// Every tensor of the layout agrees within `tolerance` of the largest value that it has in `scale`.
inline void expect_close(const ParameterLayout& layout, const std::vector<float>& actual,
                         const std::vector<float>& expected, double tolerance,
                         const std::vector<float>& scale) {
  for (const ParameterSlot& slot : layout.slots()) {
    double largest = 1e-6, error = 0;
    for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      largest = std::max(largest, std::abs(static_cast<double>(scale[at])));
      const double difference = static_cast<double>(actual[at]) - static_cast<double>(expected[at]);
      error = std::abs(difference) <= error ? error : std::abs(difference);  // NaN stays
      if (std::isnan(error)) break;
    }
    EXPECT_LE(error, tolerance * largest) << slot.name;
  }
}

inline void expect_close(const ParameterLayout& layout, const std::vector<float>& actual,
                         const std::vector<float>& expected, double tolerance) {
  expect_close(layout, actual, expected, tolerance, expected);
}

// The gradient may be written over the row.
inline void expect_gradient_in_place(Model& model, const Batch& batch) {
  std::vector<float> row = initial_row(model);
  const LossAndGradient expected = loss_and_gradient(model, row, batch);
  RandomStream noise = noise_stream();
  EXPECT_EQ(model.loss_and_gradient(row, batch, noise, row), expected.loss);
  EXPECT_EQ(row, expected.gradient);
}

// sgd_step is the gradient and then the update, within a few units in the last place.
inline void expect_step_is_update(Model& model, const Batch& batch, double weight_decay) {
  const double lr = 0.125;
  std::vector<float> row = initial_row(model);
  const LossAndGradient expected = loss_and_gradient(model, row, batch);
  std::vector<float> updated(row.size()), scale(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    updated[i] = static_cast<float>((1.0 - lr * weight_decay) * static_cast<double>(row[i]) -
                                    lr * static_cast<double>(expected.gradient[i]));
    scale[i] = std::max(std::abs(row[i]), std::abs(expected.gradient[i]));
  }
  RandomStream noise = noise_stream();
  EXPECT_EQ(model.sgd_step(row, batch, noise, lr, weight_decay), expected.loss);
  expect_close(model.layout(), row, updated, 4e-7, scale);
}

}  // namespace hanse
