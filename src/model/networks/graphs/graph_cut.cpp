#include "networks/graphs/graph_cut.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// Calls take(value) for the value of each marked node.
template <class Take>
void for_each_marked(const GraphProgram& program, const std::vector<char>& marks,
                     const Take& take) {
  for (int64_t i = 0; i < program.nodes(); ++i) {
    if (marks[to_index(i)] != 0) take(program.graph().inputs + i);
  }
}

std::set<int64_t> numbers_of(const GraphProgram& program, const std::vector<char>& marks,
                             const std::vector<int64_t>& numbers) {
  std::set<int64_t> found;
  for_each_marked(program, marks, [&](int64_t value) { found.insert(numbers[to_index(value)]); });
  return found;
}

// The first value of that number.
int64_t value_of(int64_t number, const std::vector<int64_t>& numbers) {
  return std::ranges::find(numbers, number) - numbers.begin();
}

// The values that a rest reads of x and of marked nodes, and those that are its results.
template <class Take>
void for_each_cut(const GraphProgram& program, const GraphSchedule& rest, int64_t x,
                  const std::vector<char>& marks, const Take& take) {
  const OperatorGraph& graph = program.graph();
  const auto read = [&](int64_t value) {
    const bool is_marked = value >= graph.inputs && marks[to_index(value - graph.inputs)] != 0;
    if (is_marked || value == x) take(value);
  };
  for (const auto* steps : {&rest.forward, &rest.backward}) {
    for (const GraphSchedule::Step& step : *steps) for_each_value(program.node(step.node), read);
  }
  read(graph.output);
  if (graph.representation != kNoValue) read(graph.representation);
  for (const auto* results : {&graph.gradients, &graph.buffers}) {
    for (const int64_t value : *results) read(value);
  }
}

}  // namespace

int64_t GraphCut::values() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t{0}); }

GraphCutter::GraphCutter(const CutCase& c)
    : case_(c), evaluation_numbers_(names_.of(c.evaluation)), training_moves_(c.moves) {
  training_numbers_ = names_.of(c.training);
  training_moves_.resize(to_index(c.training.graph().inputs), 1);  // gradients of the outputs
  find_common();
}

// Bans what one program alone has, until both have the same.
void GraphCutter::find_common() {
  for (;;) {
    evaluation_ =
        frozen_nodes(case_.evaluation, case_.x, case_.moves, evaluation_numbers_, banned_);
    training_ = frozen_nodes(case_.training, case_.x, training_moves_, training_numbers_, banned_);
    const std::set<int64_t> one = numbers_of(case_.evaluation, evaluation_, evaluation_numbers_);
    const std::set<int64_t> other = numbers_of(case_.training, training_, training_numbers_);
    if (one == other) return;
    std::ranges::set_symmetric_difference(one, other, std::inserter(banned_, banned_.end()));
  }
}

GraphCutter::Rests GraphCutter::rests() const {
  Rests found{.evaluates = graph_schedule(case_.evaluation, {}, {}, case_.path, {evaluation_, {}}),
              .trains = graph_schedule(case_.training, case_.trained, case_.wanted, case_.path,
                                       {training_, {}}),
              .cuts = {}};
  for_each_cut(case_.evaluation, found.evaluates, case_.x, evaluation_,
               [&](int64_t value) { found.cuts.insert(evaluation_numbers_[to_index(value)]); });
  for_each_cut(case_.training, found.trains, case_.x, training_,
               [&](int64_t value) { found.cuts.insert(training_numbers_[to_index(value)]); });
  return found;
}

// Does no later node write into its memory?
bool GraphCutter::is_final(const GraphProgram& program, int64_t value) const {
  const int64_t memory = program.memory_of(value);
  for (int64_t i = value - program.graph().inputs + 1; i < program.nodes(); ++i) {
    for (const int64_t written : program.call(i).writes) {
      if (program.memory_of(written) == memory) return false;
    }
  }
  return true;
}

bool GraphCutter::ban_what_is_not_by_samples(const std::set<int64_t>& cuts,
                                             const std::vector<SeenValue>& seen) {
  const std::size_t before = banned_.size();
  for (const int64_t number : cuts) {
    const int64_t value = value_of(number, training_numbers_);
    if (value == case_.x) continue;
    const bool is_good = seen[to_index(value)].rows > 0 && is_final(case_.training, value) &&
                         is_final(case_.evaluation, value_of(number, evaluation_numbers_));
    if (!is_good) banned_.insert(number);
  }
  return banned_.size() > before;
}

// Views are made again of what they show, unless they show less of it.
bool GraphCutter::ban_views(const std::set<int64_t>& cuts, const std::vector<SeenValue>& seen) {
  const GraphProgram& program = case_.training;
  std::map<int64_t, std::set<int64_t>> views;  // by what they show
  for (const int64_t number : cuts) {
    const int64_t value = value_of(number, training_numbers_), inputs = program.graph().inputs;
    if (value == case_.x) continue;
    const GraphCall& call = program.call(value - inputs);
    if (call.values.size() != 1 || !call.lists.empty() || !call.writes.empty()) continue;
    const int64_t source = call.values.front().value;
    if (source < inputs || training_[to_index(source - inputs)] == 0) continue;
    if (program.memory_of(source) != program.memory_of(value)) continue;
    if (seen[to_index(source)].rows > 0 && is_final(program, source)) views[source].insert(number);
  }
  const std::size_t before = banned_.size();
  for (const auto& [source, shown] : views) {
    int64_t size = 0;
    for (const int64_t number : shown) {
      size += seen[to_index(value_of(number, training_numbers_))].size;
    }
    const bool is_kept = cuts.contains(training_numbers_[to_index(source)]);
    if (is_kept || seen[to_index(source)].size <= size) banned_.insert(shown.begin(), shown.end());
  }
  return banned_.size() > before;
}

GraphCut GraphCutter::made(Rests rests, const std::vector<SeenValue>& seen) const {
  GraphCut cut;
  for (const int64_t number : rests.cuts) {
    cut.evaluation.push_back(value_of(number, evaluation_numbers_));
    cut.training.push_back(value_of(number, training_numbers_));
    const SeenValue& value = seen[to_index(cut.training.back())];
    cut.sides.push_back(value.rows);
    cut.shapes.push_back(value.shape);
    cut.sizes.push_back(value.size);
  }
  cut.frozen = graph_schedule(case_.training, {}, {}, case_.path, {{}, cut.training});
  cut.evaluates = std::move(rests.evaluates);
  cut.trains = std::move(rests.trains);
  cut.given = training_;
  cut.moves = case_.wanted;
  return cut;
}

std::optional<GraphCut> GraphCutter::cut(const std::vector<SeenValue>& seen) {
  for (;;) {
    Rests found = rests();
    if (found.cuts.empty()) return std::nullopt;
    if (ban_what_is_not_by_samples(found.cuts, seen) || ban_views(found.cuts, seen)) {
      find_common();
      continue;
    }
    GraphCut cut = made(std::move(found), seen);
    const int64_t inputs = case_.training.graph().inputs;
    bool reads_parameter = false;
    for (const GraphSchedule::Step& step : cut.frozen.forward) {
      for_each_value(case_.training.node(step.node),
                     [&](int64_t value) { reads_parameter |= value < case_.first_buffer; });
      cut.text += names_.text(training_numbers_[to_index(inputs + step.node)]) + "\n";
    }
    if (!reads_parameter) return std::nullopt;
    return cut;
  }
}

}  // namespace hanse
