// Evaluates a model on samples of a federation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/client/gathered_batch.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// Evaluates one model: sums over samples, in evaluation mode.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Over the samples of a range; batches never leave it. `results` [range.size()] as in
  // Model::evaluate.
  virtual EvaluationSums range(SampleRange range, SampleResults results = {}) = 0;
  // The same of the model as it is now, for many ranges, whose numbers may come from a device
  // together: with finish(), until which `sums` and what `results` names must stay.
  virtual void ask(SampleRange range, SampleResults results, EvaluationSums& sums) {
    sums = this->range(range, results);
  }
  virtual void finish() {}
  // Over the samples begin + order[i].
  virtual EvaluationSums chosen(int64_t begin, std::span<const int32_t> order) = 0;
};

// Evaluates a row in the host's memory, by Model::evaluate(). Memory: a batch of the model's
// evaluation_rows().
class RowEvaluator final : public Evaluator {
 public:
  // Both must outlive the object.
  RowEvaluator(const Federation& federation, Model& model)
      : federation_(federation), model_(model) {}

  // Evaluates this row from now on, which must outlive the evaluations.
  RowEvaluator& at(std::span<const float> row) {
    row_ = row;
    return *this;
  }

  EvaluationSums range(SampleRange range, SampleResults results = {}) override;
  EvaluationSums chosen(int64_t begin, std::span<const int32_t> order) override;

 private:
  const Federation& federation_;
  Model& model_;
  std::span<const float> row_;
  std::vector<float> features_;  // of a range
  GatheredBatch gathered_;       // of chosen samples
};

}  // namespace hanse
