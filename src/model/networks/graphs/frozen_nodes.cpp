#include "networks/graphs/frozen_nodes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Kind = GraphArgument::Kind;

template <class Number>
std::string text_of(const GraphArgument& argument, const Number& number) {
  switch (argument.kind) {
    case Kind::kNone: return "-";
    case Kind::kBool: return argument.number != 0 ? "true" : "false";
    case Kind::kInteger: return fmt::format("{}", argument.number);
    case Kind::kFloat: return fmt::format("{:a}", argument.real);
    case Kind::kValue: return number(argument.number);
    case Kind::kRows: return fmt::format("{}n+{}", argument.a_row, argument.number);
    case Kind::kList: break;
    default: return fmt::format("'{}{}", static_cast<int>(argument.kind), argument.text);
  }
  std::string text = "[";
  for (const GraphArgument& item : argument.items) text += text_of(item, number) + ",";
  return text + "]";
}

template <class Number>
std::string text_of(const GraphNode& node, const Number& number) {
  std::string text = node.label();
  for (const GraphArgument& argument : node.args) {
    text += fmt::format(" {}", text_of(argument, number));
  }
  for (const auto& [name, argument] : node.kwargs) {
    text += fmt::format(" {}={}", name, text_of(argument, number));
  }
  return text;
}

// What a value depends on. The greater one wins.
enum class Reach : char { kConstant, kSample, kOpen };

// Finds what nodes reach, around until no memory is opened any more.
class Reaches {
 public:
  Reaches(const GraphProgram& program, int64_t x, const std::vector<char>& moves,
          const std::vector<int64_t>& numbers, const std::set<int64_t>& banned)
      : program_(program),
        inputs_(program.graph().inputs),
        numbers_(numbers),
        banned_(banned),
        reach_(to_index(program.values()), Reach::kConstant),
        is_open_(reach_.size(), 0) {
    for (int64_t i = 0; i < inputs_; ++i) {
      if (moves[to_index(i)] != 0) reach_[to_index(i)] = Reach::kOpen;
    }
    reach_[to_index(x)] = Reach::kSample;
    do {
      find();
    } while (open_mixed_memory());
  }

  std::vector<char> frozen() const {
    std::vector<char> marks(to_index(program_.nodes()));
    for (std::size_t i = 0; i < marks.size(); ++i) {
      marks[i] = reach_[to_index(inputs_) + i] == Reach::kSample ? 1 : 0;
    }
    return marks;
  }

 private:
  Reach of_node(int64_t i) const {
    const int64_t value = inputs_ + i;
    if (i >= program_.graph().backward || program_.node(i).is_keep() || is_open(value) ||
        banned_.contains(numbers_[to_index(value)]) ||
        std::ranges::any_of(program_.call(i).writes, [&](int64_t v) { return is_open(v); })) {
      return Reach::kOpen;
    }
    Reach reach = Reach::kConstant;
    for_each_value(program_.node(i),
                   [&](int64_t v) { reach = std::max(reach, reach_[to_index(v)]); });
    return reach;
  }

  void find() {
    for (int64_t i = 0; i < program_.nodes(); ++i) reach_[to_index(inputs_ + i)] = of_node(i);
  }

  bool is_open(int64_t value) const { return is_open_[to_index(program_.memory_of(value))] != 0; }

  // Opens memory that is written into and whose values reach different things. Was there any?
  bool open_mixed_memory() {
    std::vector<char> is_written(reach_.size(), 0);
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      for (const int64_t value : program_.call(i).writes) {
        is_written[to_index(program_.memory_of(value))] = 1;
      }
    }
    std::map<int64_t, Reach> all;  // of the memory
    bool opened = false;
    const auto add = [&](int64_t memory, Reach reach) {
      if (is_written[to_index(memory)] == 0 || is_open_[to_index(memory)] != 0) return;
      const Reach before = all.try_emplace(memory, reach).first->second;
      if (before == reach && reach != Reach::kOpen) return;
      is_open_[to_index(memory)] = 1;
      opened = true;
    };
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      const Reach reach = reach_[to_index(inputs_ + i)];
      add(program_.memory_of(inputs_ + i), reach);
      for (const int64_t value : program_.call(i).writes) add(program_.memory_of(value), reach);
    }
    return opened;
  }

  const GraphProgram& program_;
  int64_t inputs_;
  const std::vector<int64_t>& numbers_;
  const std::set<int64_t>& banned_;
  std::vector<Reach> reach_;   // [values]
  std::vector<char> is_open_;  // [values] by their memory
};

}  // namespace

int64_t ValueNumbers::number_of(const std::string& text) {
  const auto [found, is_new] = known_.try_emplace(text, next_);
  if (is_new) texts_[next_++] = &found->first;
  return found->second;
}

std::vector<int64_t> ValueNumbers::of(const GraphProgram& program) {
  const int64_t inputs = program.graph().inputs;
  std::vector<int64_t> numbers(to_index(program.values()));
  std::map<int64_t, int64_t> writers;  // the number of the last one into a memory
  const auto name = [&](int64_t value) {
    const auto writer = writers.find(program.memory_of(value));
    const std::string own = fmt::format("%{}", numbers[to_index(value)]);
    return writer == writers.end() ? own : fmt::format("{}@{}", own, writer->second);
  };
  for (int64_t i = 0; i < inputs; ++i) numbers[to_index(i)] = i;
  for (int64_t i = 0; i < program.nodes(); ++i) {
    int64_t& number = numbers[to_index(inputs + i)];
    number = number_of(text_of(program.node(i), name));
    for (const int64_t value : program.call(i).writes) {
      writers[program.memory_of(value)] = number;
    }
  }
  return numbers;
}

std::vector<char> frozen_nodes(const GraphProgram& program, int64_t x,
                               const std::vector<char>& moves, const std::vector<int64_t>& numbers,
                               const std::set<int64_t>& banned) {
  return Reaches(program, x, moves, numbers, banned).frozen();
}

}  // namespace hanse
