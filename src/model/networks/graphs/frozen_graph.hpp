// The frozen part of a graph: found, run, and given to passes over the rest.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "networks/graphs/graph_cut.hpp"
#include "networks/graphs/graph_passes.hpp"

namespace hanse {

class FrozenGraph {
 public:
  // Sets a training pass's values for samples [rows, values of a sample].
  using Begin =
      std::function<void(const float* samples, int64_t rows, GraphPasses::Values& values)>;

  struct Case {
    GraphPasses& passes;
    std::vector<char> wanted;        // gradients, as schedule_of()'s
    std::vector<char> moves;         // [inputs of evaluation]
    std::span<const float> samples;  // FreezeCase::kSamples of them
    Begin begin;
  };

  // Null: nothing is frozen there. A value belongs to the frozen part only when its rows have the
  // same bits whatever samples stand beside theirs. Cost: 11 samples' passes over what is frozen.
  // Throws as GraphPasses::forward().
  static std::unique_ptr<FrozenGraph> find(const Case& c);

  const GraphCut& cut() const { return cut_; }
  // Its operators, and digests of the frozen tensors that they read among `values`, begun.
  std::string digest(const GraphPasses::Values& values) const;

  // out [rows, cut().values()]; `values` are begun, and freed.
  void compute(GraphPasses::Values& values, int64_t rows, float* out);
  // Sets what the rest of a pass reads: `samples` [rows] each with cut().values(). They are read
  // until the next call.
  void give(bool training, std::span<const float* const> samples, GraphPasses::Values& values);
  // The way back where these gradients are wanted, some of find()'s; until the next call.
  const GraphSchedule& schedule_of(const std::vector<char>& wanted);

 private:
  FrozenGraph(GraphPasses& passes, std::vector<char> wanted, GraphCut cut);

  std::vector<int64_t> shape_of(std::size_t i, int64_t rows) const;

  GraphPasses& passes_;
  GraphCut cut_;
  std::vector<std::vector<float>> given_;               // one a cut, of the pass that runs
  std::pair<std::vector<char>, GraphSchedule> chosen_;  // the last of schedule_of()
};

}  // namespace hanse
