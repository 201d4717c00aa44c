// Batches, and the results of evaluations.
#pragma once

#include <cstdint>

#include "hanse/model/mixed_labels.hpp"

namespace hanse {

// Where the samples of a batch stand in the data: places begin + order[i].
struct BatchPlaces {
  static constexpr int64_t kUnknown = -1;

  int64_t begin = kUnknown;        // unknown: the samples are no data's as it is
  const int32_t* order = nullptr;  // null: begin, begin + 1, ...

  bool known() const { return begin != kUnknown; }
  int64_t operator[](int64_t i) const { return begin + (order != nullptr ? order[i] : i); }
  BatchPlaces from(int64_t row) const {
    if (!known()) return {};
    return order != nullptr ? BatchPlaces{begin, order + row} : BatchPlaces{begin + row, nullptr};
  }
};

// Samples of one client, borrowed from the caller.
struct Batch {
  const float* features = nullptr;  // [rows, product of the sample shape]
  const int32_t* labels = nullptr;  // [rows, values of a label], see LabelForm, or null
  const float* targets = nullptr;   // likewise
  int64_t rows = 0;
  const float* class_weights = nullptr;  // [classes], for smooth_labels() and train_for(); null: 1
  const MixedLabels* mixed = nullptr;    // in training: the loss adds both losses, by shares
  double* sample_losses = nullptr;  // [rows] in training: gets model.loss of each; null: not wanted
  BatchPlaces places = {};          // of the features, as they are in the data
};

// Values of a sample, and of its label.
struct SampleSizes {
  int64_t features, labels = 1;
};

// Sums over samples, so that they can be added over batches in a fixed order.
struct EvaluationSums {
  double loss = 0;     // sum of per-sample losses
  double correct = 0;  // samples classified correctly, sequences by their shares; else 0
  int64_t samples = 0;

  EvaluationSums& operator+=(const EvaluationSums& more) {
    loss += more.loss;
    correct += more.correct;
    samples += more.samples;
    return *this;
  }
};

// Where an evaluation writes its results for each sample; null: not wanted, and costs nothing.
struct SampleResults {
  // [rows] the score of class 1 of two: z_1 - z_0 (cross-entropy) or z (binary-logistic).
  float* scores = nullptr;
  // [rows] how many classes the model prefers to the label; 0: it is classified correctly. The
  // first of equal logits is preferred, and NaN is preferred to all numbers.
  int32_t* ranks = nullptr;
  // [rows] the predicted class: the label where the rank is 0, else the first of the others that
  // the model prefers most.
  int32_t* classes = nullptr;
  // [rows, outputs] the logits, or regression's predictions.
  float* outputs = nullptr;
  // For sequences ranks and classes are [rows, positions], -1 where there is no label.
  int64_t values = 1;  // in a row of ranks and classes
  int64_t logits = 1;  // in a row of outputs

  SampleResults from(int64_t row) const {
    const int64_t first = row * values;
    return {scores ? scores + row : nullptr,
            ranks ? ranks + first : nullptr,
            classes ? classes + first : nullptr,
            outputs ? outputs + row * logits : nullptr,
            values,
            logits};
  }
};

}  // namespace hanse
