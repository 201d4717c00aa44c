#include "networks/graphs/graph_schedule.hpp"

#include <algorithm>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class Scheduler {
 public:
  Scheduler(const GraphProgram& program, const std::vector<int64_t>& trained,
            const std::vector<char>& wanted, const GraphPart& part)
      : program_(program),
        graph_(program.graph()),
        trained_(trained),
        wanted_(wanted),
        part_(part),
        needed_(to_index(program.nodes()), 0),
        last_read_(to_index(program.values()), kNoValue),
        last_write_(last_read_),
        last_use_(last_read_) {
    find_needed();
    find_uses();
  }

  GraphSchedule made() const {
    GraphSchedule schedule;
    std::vector<std::vector<int64_t>> apply(needed_.size()), release(needed_.size());
    std::vector<int64_t> last = last_use_;                      // step that uses each value
    std::vector<char> for_all(to_index(program_.values()), 0);  // kept for what follows forward
    for (const int64_t value : results()) for_all[to_index(value)] = 1;
    const std::vector<int64_t> places = places_of_gradients();
    for (std::size_t g = 0; g < places.size(); ++g) {
      if (places[g] == kNoValue) continue;
      const std::size_t value = to_index(graph_.gradients[g]);
      if (places[g] < graph_.backward) {
        schedule.apply_first.push_back(static_cast<int64_t>(g));
        for_all[value] = 1;
      } else {
        apply[to_index(places[g])].push_back(static_cast<int64_t>(g));
        last[value] = std::max(last[value], places[g]);
      }
    }
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      if (is_given(i)) continue;
      const int64_t value = graph_.inputs + i;
      const int64_t end = std::max(last[to_index(value)], i);
      const bool is_needed = needed_[to_index(i)] != 0, is_kept = end >= graph_.backward;
      if (i < graph_.backward && !(is_needed && is_kept)) schedule.not_kept.push_back(value);
      if (!is_needed || (!is_kept && for_all[to_index(value)] != 0)) continue;
      release[to_index(end)].push_back(value);
    }
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      if (needed_[to_index(i)] == 0) continue;
      auto& steps = i < graph_.backward ? schedule.forward : schedule.backward;
      steps.push_back({i, std::move(apply[to_index(i)]), std::move(release[to_index(i)])});
    }
    return schedule;
  }

 private:
  template <class Read>
  void for_each_read(int64_t i, const Read& read) const {
    for_each_value(program_.node(i), read);
  }

  bool is_given(int64_t i) const { return !part_.given.empty() && part_.given[to_index(i)] != 0; }

  // The output, the representation and the new buffers, or what is asked for in their place.
  std::vector<int64_t> results() const {
    if (!part_.results.empty()) return part_.results;
    std::vector<int64_t> values = {graph_.output};
    if (graph_.representation != kNoValue) values.push_back(graph_.representation);
    for (const int64_t buffer : graph_.buffers) {
      if (buffer != kNoValue) values.push_back(buffer);
    }
    return values;
  }

  // A node is needed for its result, and for what it writes where somebody needs that memory.
  void find_needed() {
    std::vector<char> value_needed(to_index(program_.values()), 0), memory_needed = value_needed;
    const auto need = [&](int64_t value) {
      value_needed[to_index(value)] = 1;
      memory_needed[to_index(program_.memory_of(value))] = 1;
    };
    for (const int64_t value : results()) need(value);
    for (std::size_t g = 0; g < wanted_.size(); ++g) {
      if (wanted_[g] != 0 && graph_.gradients[g] != kNoValue) need(graph_.gradients[g]);
    }
    for (int64_t i = program_.nodes(); i-- > 0;) {
      if (is_given(i)) continue;
      const auto writes_needed = [&](int64_t value) {
        return memory_needed[to_index(program_.memory_of(value))] != 0;
      };
      if (value_needed[to_index(graph_.inputs + i)] == 0 &&
          std::ranges::none_of(program_.call(i).writes, writes_needed)) {
        continue;
      }
      needed_[to_index(i)] = 1;
      for_each_read(i, need);
    }
  }

  void find_uses() {
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      if (needed_[to_index(i)] == 0) continue;
      for_each_read(i, [&](int64_t value) {
        last_use_[to_index(value)] = i;
        last_read_[to_index(program_.memory_of(value))] = i;
      });
      for (const int64_t value : program_.call(i).writes) {
        last_write_[to_index(program_.memory_of(value))] = i;
      }
    }
  }

  // The node behind which each gradient is applied; kNoValue: it is none, or not wanted.
  std::vector<int64_t> places_of_gradients() const {
    std::vector<int64_t> places(wanted_.size(), kNoValue);
    for (std::size_t g = 0; g < places.size(); ++g) {
      const int64_t value = graph_.gradients[g];
      if (wanted_[g] == 0 || value == kNoValue) continue;
      const std::size_t parameter = to_index(program_.memory_of(trained_[g]));
      places[g] = std::max({value - graph_.inputs, int64_t{0}, last_read_[parameter],
                            last_write_[to_index(program_.memory_of(value))]});
    }
    return places;
  }

  const GraphProgram& program_;
  const OperatorGraph& graph_;
  const std::vector<int64_t>& trained_;
  const std::vector<char>& wanted_;
  const GraphPart& part_;
  std::vector<char> needed_;         // nodes
  std::vector<int64_t> last_read_;   // of memory: the last node that does
  std::vector<int64_t> last_write_;  // likewise
  std::vector<int64_t> last_use_;    // of values
};

}  // namespace

GraphSchedule graph_schedule(const GraphProgram& program, const std::vector<int64_t>& trained,
                             const std::vector<char>& wanted, const std::string& path,
                             const GraphPart& part) {
  for (const int64_t gradient : program.graph().gradients) {
    if (gradient == kNoValue) continue;
    if (std::ranges::count(trained, program.memory_of(gradient)) == 0) continue;
    throw InvalidArgument("a gradient of the graph is a parameter, or a view of one", path,
                          "the graph clones it");
  }
  return Scheduler(program, trained, wanted, part).made();
}

}  // namespace hanse
