#include "networks/graphs/frozen_graph.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Values = GraphPasses::Values;

// Runs what is frozen on a few samples, node by node and side by side, and looks at each value.
class Looks {
 public:
  Looks(const FrozenGraph::Case& c, const std::vector<char>& candidates)
      : c_(c), program_(c.passes.program(true)), candidates_(candidates) {
    std::vector<int64_t> results;
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      if (candidates_[to_index(i)] != 0) results.push_back(program_.graph().inputs + i);
    }
    steps_ = graph_schedule(program_, {}, {}, c.passes.path(), {{}, std::move(results)}).forward;
    last_read_.resize(to_index(program_.values()), kNoValue);
    for (const GraphSchedule::Step& step : steps_) {
      for_each_value(program_.node(step.node),
                     [&](int64_t value) { last_read_[to_index(value)] = step.node; });
    }
  }

  // [values]
  std::vector<SeenValue> seen() {
    seen_.resize(to_index(program_.values()));
    SeenValue& x = seen_[to_index(c_.passes.file().x())];
    x = {.rows = 1, .size = sample_size(), .shape = c_.passes.file().sample};
    // The first sample beside others, and the last one likewise.
    look({{0, 1, 2}, {0, 3, 4}, {5, 6, 2}}, [&](int64_t value, const auto& tensors) {
      if (of_rows(tensors[0], 3, seen_[to_index(value)]) &&
          (!agree(tensors[0], tensors[1], 0) || !agree(tensors[0], tensors[2], 2))) {
        seen_[to_index(value)] = {};
      }
    });
    look({{0, 1}}, [&](int64_t value, const auto& tensors) {
      SeenValue two;
      SeenValue& three = seen_[to_index(value)];
      of_rows(tensors[0], 2, two);
      if (two.rows != three.rows || two.shape != three.shape) three = {};
    });
    return std::move(seen_);
  }

 private:
  using Batches = std::vector<std::vector<int64_t>>;  // samples of each

  int64_t sample_size() const { return std::ssize(c_.freeze.samples) / FreezeCase::kSamples; }

  template <class Look>
  void look(const Batches& batches, const Look& see) {
    std::vector<std::vector<float>> samples;
    std::vector<Values> values(batches.size());
    for (std::size_t b = 0; b < batches.size(); ++b) {
      std::vector<float>& own = samples.emplace_back();
      for (const int64_t sample : batches[b]) {
        const auto from = c_.freeze.samples.begin() + sample * sample_size();
        own.insert(own.end(), from, from + sample_size());
      }
      c_.begin(own.data(), std::ssize(batches[b]), values[b]);
    }
    for (const GraphSchedule::Step& step : steps_) {
      std::vector<at::Tensor> made;
      const int64_t result = program_.graph().inputs + step.node;
      for (Values& own : values) {
        c_.passes.run({&step, 1}, own);
        const c10::IValue& value = own[to_index(result)];
        made.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
      }
      if (candidates_[to_index(step.node)] != 0 && made[0].defined()) see(result, made);
      free_behind(step.node, values);
    }
  }

  void free_behind(int64_t node, std::vector<Values>& values) const {
    const auto release = [&](int64_t value) {
      if (value < program_.graph().inputs) return;
      for (Values& own : values) own[to_index(value)] = {};
    };
    for_each_value(program_.node(node), [&](int64_t value) {
      if (last_read_[to_index(value)] == node) release(value);
    });
    const int64_t result = program_.graph().inputs + node;
    if (last_read_[to_index(result)] == kNoValue) release(result);
  }

  // Does it lie sample by sample?
  static bool of_rows(const at::Tensor& tensor, int64_t rows, SeenValue& seen) {
    seen = {};
    if (tensor.scalar_type() != at::kFloat || tensor.dim() == 0) return false;
    if (tensor.numel() == 0 || tensor.size(0) % rows != 0) return false;
    seen.rows = tensor.size(0) / rows;
    seen.size = tensor.numel() / rows;
    seen.shape = tensor.sizes().slice(1).vec();
    return true;
  }

  // Has that sample the same bits in both?
  static bool agree(const at::Tensor& a, const at::Tensor& b, int64_t sample) {
    const int64_t rows = a.size(0) / 3;
    const at::Tensor one = a.narrow(0, sample * rows, rows).contiguous();
    const at::Tensor other = b.narrow(0, sample * rows, rows).contiguous();
    return std::memcmp(one.data_ptr<float>(), other.data_ptr<float>(),
                       to_index(one.numel()) * sizeof(float)) == 0;
  }

  const FrozenGraph::Case& c_;
  const GraphProgram& program_;
  const std::vector<char>& candidates_;
  std::vector<GraphSchedule::Step> steps_;
  std::vector<int64_t> last_read_;
  std::vector<SeenValue> seen_;
};

// Parameters that move, buffers that training moves or somebody else may; [inputs of evaluation].
std::vector<char> moving_inputs(const FrozenGraph::Case& c) {
  const GraphFile& file = c.passes.file();
  std::vector<char> inputs(c.slots.size() + 1, 0);  // and x
  for (std::size_t i = 0; i < c.slots.size(); ++i) {
    if (c.slots[i] != kNoValue) inputs[i] = c.freeze.moves[to_index(c.slots[i])];
  }
  for (std::size_t i = 0; i < file.training.buffers.size(); ++i) {
    const int64_t value = file.first_buffer() + static_cast<int64_t>(i);
    const int64_t moved = file.training.buffers[i];
    if (moved != kNoValue && moved != value) inputs[to_index(value)] = 1;
  }
  return inputs;
}

std::vector<int64_t> trained_of(const GraphPasses& passes) {
  return {passes.trained().begin(), passes.trained().end()};
}

}  // namespace

FrozenGraph::FrozenGraph(GraphPasses& passes, GraphCut cut, Begin begin)
    : passes_(passes), cut_(std::move(cut)), begin_(std::move(begin)) {}

std::unique_ptr<FrozenGraph> FrozenGraph::find(const Case& c) {
  const GraphPasses& passes = c.passes;
  const std::vector<int64_t> trained = trained_of(passes);
  const auto moves = c.freeze.moves.begin();
  const std::vector<char> wanted(moves, moves + std::ssize(trained));
  const std::vector<char> inputs = moving_inputs(c);
  GraphCutter cutter({.evaluation = passes.program(false),
                      .training = passes.program(true),
                      .trained = trained,
                      .wanted = wanted,
                      .moves = inputs,
                      .x = passes.file().x(),
                      .first_buffer = passes.file().first_buffer(),
                      .path = passes.path()});
  if (std::ranges::count(cutter.candidates(), 1) == 0) return nullptr;
  auto cut = cutter.cut(Looks(c, cutter.candidates()).seen());
  if (!cut) return nullptr;
  return std::unique_ptr<FrozenGraph>(new FrozenGraph(c.passes, std::move(*cut), c.begin));
}

FrozenGraph::FrozenGraph(GraphPasses& passes, const FrozenGraph& other, Begin begin)
    : FrozenGraph(passes, other.cut_, std::move(begin)) {}

std::string FrozenGraph::digest() const {
  const GraphProgram& program = passes_.program(true);
  const int64_t x = passes_.file().x();
  const std::vector<float> sample(to_index(size_of(passes_.file().sample)));
  Values values;
  begin_(sample.data(), 1, values);
  std::vector<char> is_read(to_index(x), 0);
  for (const GraphSchedule::Step& step : cut_.frozen.forward) {
    for_each_value(program.node(step.node), [&](int64_t value) {
      if (value < x) is_read[to_index(value)] = 1;
    });
  }
  std::string text = cut_.text;
  for (const int64_t value : cut_.training) text += fmt::format("{} ", value);
  for (int64_t value = 0; value < x; ++value) {
    if (is_read[to_index(value)] == 0) continue;
    const at::Tensor tensor = values[to_index(value)].toTensor().contiguous();
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    text += fmt::format("{} {}\n", value, digest_hex(bytes));
  }
  return digest_hex(std::as_bytes(std::span(text)));
}

std::vector<int64_t> FrozenGraph::shape_of(std::size_t i, int64_t rows) const {
  std::vector<int64_t> shape = {rows * cut_.sides[i]};
  shape.insert(shape.end(), cut_.shapes[i].begin(), cut_.shapes[i].end());
  return shape;
}

void FrozenGraph::compute(const float* samples, int64_t rows, float* out) {
  const c10::InferenceMode no_gradients;
  const PassMemory::Use memory(memory_);
  Values values;
  begin_(samples, rows, values);
  passes_.run(cut_.frozen.forward, values);
  std::vector<at::Tensor> made;
  for (std::size_t i = 0; i < cut_.sizes.size(); ++i) {
    const at::Tensor& value = values[to_index(cut_.training[i])].toTensor();
    TORCH_CHECK(value.sizes() == shape_of(i, rows), "a frozen value has another shape");
    made.push_back(value.reshape({rows, cut_.sizes[i]}));
  }
  at::from_blob(out, {rows, cut_.values()}).copy_(at::cat(made, 1));
}

void FrozenGraph::give(bool training, const at::Tensor& frozen, Values& values) const {
  const std::vector<int64_t>& places = training ? cut_.training : cut_.evaluation;
  int64_t first = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const int64_t size = cut_.sizes[i];
    values[to_index(places[i])] =
        frozen.narrow(1, first, size).contiguous().view(shape_of(i, frozen.size(0)));
    first += size;
  }
}

const GraphSchedule& FrozenGraph::schedule_of(const std::vector<char>& wanted) {
  if (wanted == chosen_.first) return chosen_.second;
  std::vector<char> moving = wanted;
  for (std::size_t i = 0; i < moving.size(); ++i) moving[i] &= cut_.moves[i];
  chosen_ = {wanted, graph_schedule(passes_.program(true), trained_of(passes_), moving,
                                    passes_.path(), {cut_.given, {}})};
  return chosen_.second;
}

}  // namespace hanse
