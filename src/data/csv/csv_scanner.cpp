#include "csv/csv_scanner.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
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

constexpr int64_t kMostDigits = 1000;  // of a number with an exponent

// Takes the digits at the start.
std::string_view take_digits(std::string_view& text) {
  const std::size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

// Takes a sign at the start: is it a minus?
bool take_minus(std::string_view& text) {
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  return minus;
}

// Takes "e-3" at the start, 0 if there is none; a value beyond all digits is cut.
std::optional<int64_t> take_exponent(std::string_view& text) {
  if (!text.starts_with('e') && !text.starts_with('E')) return 0;
  text.remove_prefix(1);
  const bool minus = take_minus(text);
  const std::string_view digits = take_digits(text);
  if (digits.empty()) return std::nullopt;
  int64_t exponent = 0;
  for (const char digit : digits)
    exponent = std::min<int64_t>(10 * exponent + digit - '0', 1 << 30);
  return minus ? -exponent : exponent;
}

}  // namespace

bool CsvScanner::next() {
  if (at_end()) return false;
  line_ = next_line_;
  std::size_t n = 0;
  for (bool ends = false; !ends; ++n) {
    if (n == fields_.size()) fields_.emplace_back();
    if (!at_end() && at('"')) {
      scan_quoted(fields_[n]);
    } else {
      scan_plain(fields_[n]);
    }
    ends = at_end() || at(dialect_.line_end);
    if (!at_end() && text_[at_++] == dialect_.line_end) ++next_line_;
  }
  fields_.resize(n);
  if (order_.size() != n) return true;
  arranged_.resize(n);
  for (std::size_t i = 0; i < n; ++i) std::swap(arranged_[i], fields_[order_[i]]);
  std::swap(arranged_, fields_);
  return true;
}

std::string CsvScanner::where() const {
  return fmt::format("{}:{}", *file_, std::max<int64_t>(line_, dialect_.first_line));
}

void CsvScanner::scan_plain(CsvField& field) {
  const char ends[] = {dialect_.separator, dialect_.line_end};
  const std::size_t end =
      std::min(text_.find_first_of(std::string_view(ends, 2), at_), text_.size());
  field.text = trim(text_.substr(at_, end - at_));  // removes the \r of a CRLF, too
  field.quoted = false;
  at_ = end;
}

void CsvScanner::scan_quoted(CsvField& field) {
  field.text.clear();
  field.quoted = true;
  for (++at_;; ++at_) {
    if (at_end()) {
      throw InvalidArgument("a quoted field does not end", where(), "close it with a quote");
    }
    if (at(dialect_.line_end)) ++next_line_;
    if (at('"')) {
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
      ++at_;
    }
    field.text += text_[at_];
  }
  ++at_;
  if (!at_end() && at('\r') && !at_field_end()) ++at_;
  if (!at_end() && !at_field_end()) {
    throw InvalidArgument("text follows a closing quote", where(),
                          "write a quote inside a quoted field twice");
  }
}

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

void require_utf8(std::string_view text, const std::string& where) {
  if (is_utf8(text)) return;
  throw NotUtf8(fmt::format("'{}' is not UTF-8", text), where,
                "save the table as UTF-8, or: iconv -f LATIN1 -t UTF-8");
}

std::optional<std::string> whole_number(std::string_view text) {
  const bool minus = take_minus(text);
  std::string digits(take_digits(text));
  int64_t exponent = 0;  // digits * 10^exponent
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view fraction = take_digits(text);
    digits += fraction;
    exponent = -static_cast<int64_t>(fraction.size());
  }
  if (digits.empty()) return std::nullopt;
  const bool plain = text.empty();
  const auto written = take_exponent(text);
  if (!written || !text.empty()) return std::nullopt;
  exponent += *written;
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty()) return "0";
  while (exponent < 0 && digits.back() == '0') {
    digits.pop_back();
    ++exponent;
  }
  if (exponent < 0) return std::nullopt;
  if (!plain && std::ssize(digits) + exponent > kMostDigits) return std::nullopt;
  digits.append(static_cast<std::size_t>(exponent), '0');
  return minus ? "-" + digits : digits;
}

bool less_whole(const std::string& a, const std::string& b) {
  const bool a_minus = a.starts_with('-'), b_minus = b.starts_with('-');
  if (a_minus != b_minus) return a_minus;
  const std::string& small = a_minus ? b : a;  // of two that are not negative, by their digits
  const std::string& large = a_minus ? a : b;
  return small.size() != large.size() ? small.size() < large.size() : small < large;
}

}  // namespace hanse
