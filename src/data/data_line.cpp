#include "data_line.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostNames = 8;  // that a line shows

// "a, b, c", or the first ones and " ... z".
std::string shortened(const std::vector<std::string>& names) {
  if (names.size() <= kMostNames) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + kMostNames - 1);
  return fmt::format("{} ... {}", fmt::join(first, ", "), names.back());
}

std::string class_text(const ClientLayout& layout) {
  const LabelForm form = layout.label_form();
  if (layout.classes == 0 && !layout.multi_label) {
    return layout.label_values == 1 ? "a number to predict"
                                    : fmt::format("{} numbers to predict", layout.label_values);
  }
  std::string text = counted(form.scored_classes(), layout.multi_label ? "label" : "class",
                             layout.multi_label ? "labels" : "classes");
  if (!layout.class_names.empty()) text += ": " + shortened(layout.class_names);
  return text;
}

// "; class 0 has no sample"
std::string empty_classes(const ClientLayout& layout, std::span<const int32_t> labels) {
  if (layout.classes == 0 || layout.label_values != 1) return "";
  std::vector<bool> seen(to_index(layout.classes));
  for (const int32_t label : labels) seen[static_cast<std::size_t>(label)] = true;
  std::vector<std::string> missing;
  for (std::size_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) continue;
    missing.push_back(layout.class_names.empty() ? std::to_string(c) : layout.class_names[c]);
  }
  if (missing.empty()) return "";
  return fmt::format("; {} {} no sample: {}", counted(std::ssize(missing), "class", "classes"),
                     missing.size() == 1 ? "has" : "have", shortened(missing));
}

}  // namespace

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string data_line(const ClientLayout& layout, std::span<const int32_t> labels) {
  std::string line =
      fmt::format("data: {} of {}, {}", counted(layout.samples(), "sample", "samples"),
                  counted(std::ssize(layout.clients), "client", "clients"), class_text(layout));
  line += empty_classes(layout, labels);
  if (!layout.unread.empty()) line += fmt::format("; not read: {}", fmt::join(layout.unread, ", "));
  return line;
}

}  // namespace hanse
