// A graph in two: what is frozen of it, which is computed once a sample, and the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "networks/graphs/frozen_nodes.hpp"
#include "networks/graphs/graph_schedule.hpp"

namespace hanse {

// Where a graph is cut. The frozen part makes values [samples, size of each] in float32, one behind
// the other, that both rests read.
struct GraphCut {
  std::vector<int64_t> evaluation, training;  // those values, by their numbers in either program
  std::vector<int64_t> sides;                 // the first side of each, of a sample
  std::vector<std::vector<int64_t>> shapes;   // the other sides
  std::vector<int64_t> sizes;                 // of each, values of a sample
  GraphSchedule frozen;                       // of training's program
  GraphSchedule evaluates, trains;            // the rests
  std::vector<char> given;                    // [nodes of training] of the frozen part
  std::vector<char> moves;                    // [gradients]
  std::string text;                           // the frozen part's operators

  int64_t values() const;  // of a sample
};

// What a value of a pass over a few samples looks like.
struct SeenValue {
  int64_t rows = 0;  // a of its first side a n; 0: it is not one float32 tensor by samples
  int64_t size = 0;  // values of a sample
  std::vector<int64_t> shape;  // of the other sides
};

struct CutCase {
  const GraphProgram& evaluation;
  const GraphProgram& training;
  const std::vector<int64_t>& trained;  // parameters, as graph_schedule()'s
  const std::vector<char>& wanted;      // of their gradients
  const std::vector<char>& moves;       // [inputs of evaluation] who may change
  int64_t x;
  int64_t first_buffer;  // inputs below are parameters
  const std::string& path;
};

// Cuts where both programs compute the same. Construct it, look at the nodes that seen() asks for,
// and call cut().
class GraphCutter {
 public:
  explicit GraphCutter(const CutCase& c);

  // [nodes of training] those whose values may be cut. Empty marks: none.
  const std::vector<char>& candidates() const { return training_; }

  // `seen` [values of training] of the candidates. Nothing: no frozen parameter is read before what
  // moves, or no value there lies sample by sample.
  std::optional<GraphCut> cut(const std::vector<SeenValue>& seen);

 private:
  struct Rests {
    GraphSchedule evaluates, trains;
    std::set<int64_t> cuts;  // numbers
  };

  void find_common();
  Rests rests() const;
  bool ban_what_is_not_by_samples(const std::set<int64_t>& cuts,
                                  const std::vector<SeenValue>& seen);
  bool ban_views(const std::set<int64_t>& cuts, const std::vector<SeenValue>& seen);
  bool is_final(const GraphProgram& program, int64_t value) const;
  GraphCut made(Rests rests, const std::vector<SeenValue>& seen) const;

  CutCase case_;
  ValueNumbers names_;
  std::vector<int64_t> evaluation_numbers_, training_numbers_;
  std::vector<char> training_moves_;
  std::set<int64_t> banned_;
  std::vector<char> evaluation_, training_;  // frozen nodes
};

}  // namespace hanse
