// The form of every sample's label: one mechanism for classes, several labels, several outputs and
// sequences.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

//   a class            classes > 0, values = 1
//   a class a position classes > 0, values > 1: one for each position of a sequence; -1: none
//   numbers            classes = 0: regression with so many outputs
//   several labels     classes = 0, multi_label: values classes, each 1 if the sample has it, else
//                       0
// Classes are int32 labels, all else float32 targets. The loss of a sample is the mean over the
// values of its label.
struct LabelForm {
  // Implicit: the number of classes describes most data.
  LabelForm(int64_t n_classes = 0, int64_t n_values = 1, bool several = false)
      : classes(n_classes), values(n_values), multi_label(several) {}

  bool is_sequence() const { return classes > 0 && values > 1; }
  // The classes that a model's scores tell apart; 0: regression.
  int64_t scored_classes() const { return multi_label ? values : classes; }

  // The form in words, for messages.
  std::string text() const {
    const std::string of_classes = std::to_string(scored_classes()) + " classes";
    if (multi_label) return "several labels a sample, of " + of_classes;
    if (is_sequence()) return "one of " + of_classes + " a position";
    return classes > 0 ? of_classes : "regression targets";
  }

  int64_t classes;
  int64_t values;
  bool multi_label;
};

}  // namespace hanse
