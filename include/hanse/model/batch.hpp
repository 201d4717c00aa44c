// What models train and are evaluated on, and what an evaluation finds.
#pragma once

#include <cstdint>

#include "hanse/model/mixed_labels.hpp"

namespace hanse {

// Samples of one client, borrowed from the caller.
struct Batch {
  const float* features = nullptr;  // [rows, product of the sample shape]
  const int32_t* labels = nullptr;  // [rows, values of a label], see LabelForm, or null
  const float* targets = nullptr;   // likewise
  int64_t rows = 0;
  const float* class_weights = nullptr;  // [classes], for smooth_labels() and train_for(); null: 1
  const MixedLabels* mixed = nullptr;    // in training: the loss is that of both, in their shares
};

// Sums over samples, so that they can be added over batches in a fixed order.
struct EvaluationSums {
  double loss = 0;     // sum of per-sample losses
  double correct = 0;  // samples classified correctly, of sequences their shares; else 0
  int64_t samples = 0;

  EvaluationSums& operator+=(const EvaluationSums& more) {
    loss += more.loss;
    correct += more.correct;
    samples += more.samples;
    return *this;
  }
};

// Where an evaluation writes what it finds of each sample; null: not wanted, and costs nothing.
struct SampleResults {
  // [rows] how much it looks like class 1 of two: z_1 - z_0 (cross-entropy) or z (binary-logistic).
  float* scores = nullptr;
  // [rows] how many classes the model prefers to the label; 0: it is classified correctly. Of equal
  // logits the first is preferred, and one that is NaN to all numbers.
  int32_t* ranks = nullptr;
  // [rows] the class that the sample is taken for: its label where the rank is 0, else the first of
  // the others that no other is preferred to.
  int32_t* classes = nullptr;
  // [rows, outputs] the logits, or what regression predicts.
  float* outputs = nullptr;
  // Of sequences ranks and classes are [rows, positions], -1 where there is no label.
  int64_t values = 1;  // of a row of ranks, classes and outputs

  SampleResults from(int64_t row) const {
    const int64_t first = row * values;
    return {scores ? scores + row : nullptr, ranks ? ranks + first : nullptr,
            classes ? classes + first : nullptr, outputs ? outputs + first : nullptr, values};
  }
};

}  // namespace hanse
