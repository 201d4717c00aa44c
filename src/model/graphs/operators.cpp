#include "hanse/operators.hpp"

#include <set>
#include <sstream>

#include "graphs/graph_file.hpp"

namespace hanse {

namespace {

std::set<std::string> listed_names() {
  std::set<std::string> names;
  std::istringstream lines{std::string(kOperatorList)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) names.insert(word);
  }
  return names;
}

}  // namespace

bool is_allowed_operator(const std::string& name) {
  static const std::set<std::string> allowed = listed_names();
  constexpr std::string_view kNamespace = "aten::";
  if (!name.starts_with(kNamespace)) return false;
  const std::string bare = name.substr(kNamespace.size());
  if (allowed.contains(bare)) return true;
  return bare.size() > 1 && bare.ends_with('_') &&
         allowed.contains(bare.substr(0, bare.size() - 1));
}

}  // namespace hanse
