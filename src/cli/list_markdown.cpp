#include <algorithm>

#include <fmt/format.h>

#include "hanse/cli/program.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

namespace {

constexpr const char* kHead = R"(# Every key of a job file

`hanse list --markdown` prints this page, and a test compares the two. [README.md](README.md)
explains how a job file works.

A key with "only for" belongs to the named kinds, and kinds may give one key defaults and meanings
of their own. Where none of its kinds is chosen the key is ignored, and the run says so in one line.
`hanse resume` takes only keys marked "may change on resume".
)";

// A cell of a table: '|' would end it.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

// One row of a section's table.
std::string row(const Option& option, const std::string& value, const std::string& range,
                const std::string& meaning) {
  return fmt::format("| {} | {} | {} | {}{} |\n", code(option.key), code(value), code(range),
                     meaning, option.may_change ? "; may change on resume" : "");
}

bool alike(const KindUse& a, const KindUse& b) {
  return a.selector == b.selector && a.help == b.help && a.range == b.range &&
         a.default_text == b.default_text;
}

// Kinds that use the option in one way share a row.
std::string option_rows(const Option& option) {
  if (option.uses.empty()) {
    return row(option, option.default_text, option.range, cell(option.help));
  }
  std::string text;
  for (auto use = option.uses.begin(); use != option.uses.end(); ++use) {
    const auto same = [&](const KindUse& other) { return alike(*use, other); };
    if (std::any_of(option.uses.begin(), use, same)) continue;
    std::vector<std::string> kinds;
    for (const KindUse& other : option.uses) {
      if (same(other)) kinds.push_back(other.kind);
    }
    const bool own = use->selector.substr(0, use->selector.find('.')) == option.section();
    text += row(option, use->default_text, use->range,
                fmt::format("{}; only for {}", cell(use->help),
                            code((own ? "" : use->selector + " = ") + join(kinds, ", "))));
  }
  return text;
}

std::string kind_rows(const std::string& section) {
  std::string text;
  for (const KindFamily& family : catalog()) {
    if (family.section() != section) continue;
    text += fmt::format("\n| {} | |\n|---|---|\n", code(family.key));
    for (const auto& entry : family.rows) {
      text += fmt::format("| {} | {} |\n", code(entry.name), cell(entry.summary));
    }
  }
  return text;
}

}  // namespace

std::string list_markdown() {
  const KeyedJob defaults(catalog());
  std::string text = kHead;
  std::string section;
  for (const Option& option : defaults.table.options()) {
    if (option.section() != section) {
      if (!section.empty()) text += kind_rows(section);
      section = option.section();
      text += fmt::format("\n## [{}]\n\n| key | default | range | meaning |\n|---|---|---|---|\n",
                          section);
    }
    text += option_rows(option);
  }
  return text + kind_rows(section);
}

}  // namespace hanse
