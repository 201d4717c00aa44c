#include "graphs/operator_graph.hpp"

#include <algorithm>

namespace hanse {

using Kind = GraphArgument::Kind;

bool is_whole_item(const GraphNode& node) {
  return node.args.size() == 2 && node.kwargs.empty() && node.args[0].is(Kind::kValue) &&
         node.args[1].is(Kind::kInteger) && node.args[1].number >= 0;
}

bool is_whole_keep(const GraphNode& node) {
  const auto& args = node.args;
  const auto is_size = [](const GraphArgument& size) {
    return size.is(Kind::kInteger) || size.is(Kind::kRows);
  };
  const bool is_good = args.size() == 3 && node.kwargs.empty() && args[0].is(Kind::kList) &&
                       std::ranges::all_of(args[0].items, is_size) &&
                       std::ssize(args[0].items) <= kMostGraphAxes && args[2].is(Kind::kText) &&
                       (args[2].text == "float" || args[2].text == "bool");
  const double p = !is_good                     ? -1
                   : args[1].is(Kind::kFloat)   ? args[1].real
                   : args[1].is(Kind::kInteger) ? static_cast<double>(args[1].number)
                                                : -1;
  return p >= 0 && p <= 1;
}

}  // namespace hanse
