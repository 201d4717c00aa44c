// The frozen part of a graph: found, run, and given to passes over the rest.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/model/frozen_part.hpp"
#include "networks/graphs/graph_cut.hpp"
#include "networks/graphs/graph_passes.hpp"
#include "networks/graphs/pass_memory.hpp"

namespace hanse {

class FrozenGraph final : public FrozenPart {
 public:
  // Sets a training pass's values for samples [rows, values of a sample] in the host's memory.
  using Begin =
      std::function<void(const float* samples, int64_t rows, GraphPasses::Values& values)>;

  struct Case {
    GraphPasses& passes;
    const std::vector<int64_t>& slots;  // [inputs that are no gradients] of the row, or kNoValue
    const FreezeCase& freeze;
    Begin begin;
  };

  // Null: nothing is frozen there. A value belongs to the frozen part only when its rows have the
  // same bits whatever samples stand beside theirs. Cost: 11 samples' passes over what is frozen.
  // Throws as GraphPasses::forward().
  static std::unique_ptr<FrozenGraph> find(const Case& c);
  // Cut as `other` is, whose passes are over the same file.
  FrozenGraph(GraphPasses& passes, const FrozenGraph& other, Begin begin);

  int64_t values() const override { return cut_.values(); }
  std::string digest() const override;
  void compute(const float* samples, int64_t rows, float* out) override;

  // Sets what the rest of a pass reads, from `frozen` [rows, values()].
  void give(bool training, const at::Tensor& frozen, GraphPasses::Values& values) const;
  const GraphSchedule& rest(bool training) const { return training ? cut_.trains : cut_.evaluates; }
  // The way back where these gradients are wanted, of what moves(); until the next call.
  const GraphSchedule& schedule_of(const std::vector<char>& wanted);
  bool moves(int64_t gradient) const { return cut_.moves[to_index(gradient)] != 0; }

  int64_t bytes() const { return memory_.bytes(); }  // that compute() keeps

 private:
  FrozenGraph(GraphPasses& passes, GraphCut cut, Begin begin);

  std::vector<int64_t> shape_of(std::size_t i, int64_t rows) const;

  GraphPasses& passes_;
  GraphCut cut_;
  Begin begin_;
  PassMemory memory_;
  std::pair<std::vector<char>, GraphSchedule> chosen_;  // the last of schedule_of()
};

}  // namespace hanse
