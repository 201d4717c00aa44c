#include <algorithm>

#include <fmt/format.h>

#include "hanse/cli/program.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

namespace {

constexpr const char* kHead = R"(# Every key of a job file

`hanse list --markdown` prints this page, and a test compares the two. [README.md](README.md)
explains how a job file works.

A key with "only for" belongs to the named kinds, and may have another default or meaning for
other kinds. Where none of its kinds is chosen the key is ignored, and the run says so in one line.
)";

// A cell of a table: '|' would end it.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

std::string option_row(const Option& option) {
  const std::string only =
      option.kinds.empty() ? "" : "; only for " + code(join(option.kinds, ", "));
  return fmt::format("| {} | {} | {} | {}{} |\n", code(option.key), code(option.default_text),
                     code(option.range), cell(option.help), only);
}

std::string kind_rows(const std::string& section) {
  std::string text;
  for (const KindFamily& family : catalog()) {
    if (family.key.substr(0, family.key.find('.')) != section) continue;
    text += fmt::format("\n| {} | |\n|---|---|\n", code(family.key));
    for (const auto& entry : family.entries) {
      text += fmt::format("| {} | {} |\n", code(entry.name), cell(entry.summary));
    }
  }
  return text;
}

}  // namespace

std::string list_markdown() {
  const Job defaults;
  std::string text = kHead;
  std::string section;
  for (const Option& option : defaults.table.options()) {
    if (option.section() != section) {
      if (!section.empty()) text += kind_rows(section);
      section = option.section();
      text += fmt::format("\n## [{}]\n\n| key | default | range | meaning |\n|---|---|---|---|\n",
                          section);
    }
    text += option_row(option);
  }
  return text + kind_rows(section);
}

}  // namespace hanse
