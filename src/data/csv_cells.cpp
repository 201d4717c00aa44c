#include "csv_cells.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

using namespace std::string_view_literals;

// In small letters: marks of missing values in pandas and R, Weka's "?", MySQL's "\N" and the
// errors of workbooks.
constexpr std::array kMissing = {
    "na"sv,      "n/a"sv,    "n.a."sv,    "<na>"sv,   "#n/a"sv,    "#n/a n/a"sv, "#na"sv,
    "nan"sv,     "-nan"sv,   "+nan"sv,    "1.#ind"sv, "-1.#ind"sv, "1.#qnan"sv,  "-1.#qnan"sv,
    "null"sv,    "<null>"sv, "(null)"sv,  "[null]"sv, "\\n"sv,     "?"sv,        "#null!"sv,
    "#value!"sv, "#ref!"sv,  "#div/0!"sv, "#name?"sv, "#num!"sv,
};
constexpr std::array kPerhapsMissing = {
    "none"sv,    "<none>"sv,  "nil"sv, "-"sv,   "--"sv, "---"sv,       "."sv,      ".."sv,
    "missing"sv, "unknown"sv, "na"sv,  "nat"sv, "??"sv, "undefined"sv, "\u2013"sv, "\u2014"sv,
};

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return text.find(part) != text.npos; });
}

// The number in `text` with `instead` in the place of every `part`; empty: none.
std::string repaired(std::string_view text, std::string_view part, std::string_view instead) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(part, at)) != result.npos; at += instead.size()) {
    result.replace(at, part.size(), instead);
  }
  return result != text && to_number(result) ? result : "";
}

}  // namespace

Missing missing_mark(std::string_view text) {
  if (text.size() > 9) return Missing::kNo;
  const std::string small = in_small_letters(text);
  const bool sure = text != "Na" && std::ranges::count(kMissing, small) > 0;  // sodium
  if (sure || text == "NaT") return Missing::kYes;
  return std::ranges::count(kPerhapsMissing, small) > 0 ? Missing::kPerhaps : Missing::kNo;
}

std::optional<double> to_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || code == std::errc::invalid_argument) return std::nullopt;
  if (code == std::errc()) return value;
  const bool tiny = has_any(text, {"e-", "E-"}) || text.starts_with("0.") ||
                    text.starts_with("-0.") || text.starts_with('.') || text.starts_with("-.");
  return tiny ? 0.0 : std::numeric_limits<double>::infinity();
}

std::string meant_number(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kRepairs[] = {
      {"\u2212", "-"}, {"\u00A0", ""}, {"\u202F", ""}, {"\u2009", ""}, {"\u200B", ""},
      {"\uFEFF", ""},  {" ", ""},      {"_", ""},      {",", "."},
  };
  for (const auto& [part, instead] : kRepairs) {
    std::string number = repaired(text, part, instead);
    if (!number.empty()) return number;
  }
  return "";
}

std::string number_hint(std::string_view text) {
  if (missing_mark(text) != Missing::kNo) return "fill it in or remove the row";
  const std::string number = meant_number(text);
  if (text.find(',') != text.npos && text.find_first_not_of("+-0123456789.,eE") == text.npos) {
    return "a number has a decimal point and no comma" + (number.empty() ? "" : ": " + number);
  }
  if (!number.empty()) {
    return fmt::format("a character in it, seen or not, is none of a number: write {}", number);
  }
  if (has_any(text, {"0x", "0X"})) return "write it in decimal digits";
  return "only the client column and class labels may be text";
}

void require_utf8(std::string_view text, const std::string& where) {
  if (is_utf8(text)) return;
  throw InvalidArgument(fmt::format("'{}' is not UTF-8", text), where,
                        "save the table as UTF-8, or: iconv -f LATIN1 -t UTF-8");
}

}  // namespace hanse
