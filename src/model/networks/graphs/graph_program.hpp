// A graph of a file (graphs/graph_file.hpp) over LibTorch's operators: checked at load, and
// planned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "graphs/graph_file.hpp"
#include "networks/graphs/graph_guards.hpp"
#include "networks/graphs/graph_kernels.hpp"
#include "networks/graphs/graph_products.hpp"
#include "networks/mask_source.hpp"

namespace hanse {

// A node with its operator.
struct GraphCall {
  struct Value {
    int64_t argument;
    int64_t value;
    bool is_factor = false;  // of a product, and rounded
  };
  struct Tensors {  // a list of them
    int64_t argument;
    bool optional;
    std::vector<int64_t> values;  // kNoValue: none
  };
  struct Rows {  // an argument that differs with the batch's rows
    int64_t argument;
    const GraphArgument* source;
  };

  std::optional<c10::OperatorHandle> op;  // none: item and keep
  std::vector<c10::IValue> fixed;         // arguments for the bound number of rows
  std::vector<Value> values;
  std::vector<Tensors> lists;
  std::vector<Rows> rows;
  std::vector<int64_t> writes;  // the values that it changes
  GraphGuard guard = nullptr;
  GraphKernel kernel = nullptr;       // is tried before the operator
  GraphCorrection correct = nullptr;  // of a result whose factors were rounded
  bool is_empty = false;              // makes memory that nothing was written to
};

class GraphProgram {
 public:
  // The graph must outlive it; its tensors lie on `device`. `narrow`: factors of products are
  // rounded to bfloat16 (graph_products.hpp).
  // Throws InvalidArgument, which names the file: LibTorch has no such operator, an argument does
  // not fit its schema, a result is no tensor, or an operator writes into an input.
  GraphProgram(const OperatorGraph& graph, const std::string& path, at::Device device, bool narrow);

  const OperatorGraph& graph() const { return graph_; }
  int64_t nodes() const { return std::ssize(graph_.nodes); }
  int64_t values() const { return graph_.inputs + nodes(); }
  bool draws() const { return draws_; }

  // Prepares the arguments for a batch of so many rows.
  void bind(int64_t rows);

  // Runs node `i`, whose result becomes values[inputs + i]; `masks` are those of keep. Throws what
  // LibTorch throws, and std::invalid_argument. REQUIRES: bind().
  void run(int64_t i, std::vector<c10::IValue>& values, MaskSource* masks);

  // The class of a value: values that may have memory in common have one.
  int64_t memory_of(int64_t value) const;
  const GraphCall& call(int64_t i) const { return calls_[static_cast<std::size_t>(i)]; }
  const GraphNode& node(int64_t i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }

 private:
  // What a value is: a tensor, a list of unknown length, or so many tensors.
  static constexpr int64_t kTensor = -1, kList = -2;

  void resolve(int64_t i);
  void add_item(int64_t i);
  void add_arguments(int64_t i, const c10::FunctionSchema& schema);
  void add_results(int64_t i, const c10::FunctionSchema& schema);
  void require_tensor(int64_t value) const;
  void join(int64_t a, int64_t b);
  void require_own_memory() const;
  void round_factors(const GraphCall& call, const std::vector<c10::IValue>& values);
  const c10::IValue& argument(const GraphCall& call, std::size_t i,
                              const std::vector<c10::IValue>& values) const;
  bool run_kernel(const GraphCall& call, std::vector<c10::IValue>& values, int64_t result);
  void run_operator(const GraphCall& call, std::vector<c10::IValue>& values, int64_t result);
  void check_inputs(const GraphCall& call, const std::vector<c10::IValue>& values) const;
  at::Tensor keep(const GraphNode& node, MaskSource& masks) const;
  void take_item(const GraphNode& node, std::vector<c10::IValue>& values, int64_t result) const;

  const OperatorGraph& graph_;
  std::string path_;
  at::Device device_;
  bool narrow_;
  std::vector<GraphCall> calls_;
  std::vector<int64_t> memory_;  // a forest of values
  std::vector<int64_t> kinds_;   // of values: kTensor, kList or a number of tensors
  std::vector<c10::IValue> stack_;
  GraphArguments arguments_;
  std::vector<c10::IValue> rounded_;  // factors of the call that runs, in the places of its values
  int64_t rows_ = 0;
  bool draws_ = false;
};

}  // namespace hanse
