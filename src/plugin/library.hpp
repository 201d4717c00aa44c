// A rule in a library with the interface of hanse/plugin.h.
#pragma once

#include <string>

#include "hanse/base/rule_file.hpp"
#include "hanse/base/state.hpp"
#include "hanse/plugin.h"
#include "hanse/rules/told.hpp"

namespace hanse {

// Owns one rule. The library stays loaded until the process ends.
class PluginRule {
 public:
  // `create` needs no path and no arguments: the source has them. Throws InvalidArgument.
  PluginRule(const RuleSource& source, HanseCreate create);
  ~PluginRule();
  PluginRule(const PluginRule&) = delete;
  PluginRule& operator=(const PluginRule&) = delete;

  const HansePlugin& api() const { return api_; }
  void* rule() const { return rule_; }

  // What the rule says that it must be told; nothing where the library has no function for that.
  HanseNeeds needs() const;

  // Throws InvalidArgument with what the library says, unless the status is 0.
  void require(int status) const;
  // Throws InvalidArgument about an act of the rule: "mix() gives client 3 ...".
  [[noreturn]] void refuse(const std::string& what) const;
  // Throws InvalidArgument when the library has no such function.
  void require_function(bool has, const std::string& name) const;

  // The rule's arrays, in the state as "NAME/values", "NAME/type" and "NAME/shape".
  void visit(StateFields& fields);

 private:
  State save() const;
  void load(const State& state);

  std::string path_, where_;
  HansePlugin api_{};
  void* rule_ = nullptr;
};

// `view` with the report's numbers; NULL for those that are not told.
template <class Report, class View>
View with_told(const Report& report, View view) {
  for_each_told<Report>([&](const auto& row) {
    const auto numbers = report.*row.member;
    if (row.view) view.*row.view = numbers.empty() ? nullptr : numbers.data();
  });
  return view;
}

// Loads libpython of the Python that HANSE_PYTHON names, or of the first python3 in PATH, and
// returns the file of the bridge for its version; both once. Throws InvalidArgument. Cost of the
// first call: 20 ms.
const std::string& python_bridge();

}  // namespace hanse
