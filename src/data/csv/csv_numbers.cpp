#include "csv/csv_numbers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "csv/csv_scanner.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

using namespace std::string_view_literals;

constexpr std::array kComparisons = {"<="sv,     ">="sv, "<"sv, ">"sv,     "\u2264"sv,
                                     "\u2265"sv, "~"sv,  "="sv, "\u2248"sv};
constexpr std::array kCurrencies = {"$"sv,      "\u20AC"sv, "\u00A3"sv, "\u00A5"sv,
                                    "\u20B9"sv, "EUR "sv,   "USD "sv,   "GBP "sv};
// What may part groups of digits beside a comma and a point; each becomes one blank.
constexpr std::array kParting = {" "sv,      "\u00A0"sv, "\u202F"sv, "\u2009"sv,
                                 "\u2007"sv, "'"sv,      "\u2019"sv, "_"sv};
constexpr std::size_t kLongestUnit = 20;  // bytes

// Takes the first of `words` that the text starts with.
std::string take_one(const auto& words, std::string_view& text) {
  for (const std::string_view word : words) {
    if (!text.starts_with(word)) continue;
    text = trim(text.substr(word.size()));
    return std::string(trim(word));
  }
  return "";
}

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

// Every kind of blank and apostrophe as a blank, and Unicode's minus as "-".
std::string with_plain_signs(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto starts = [&](std::string_view part) { return text.starts_with(part); };
    const auto parting = std::ranges::find_if(kParting, starts);
    const bool is_minus = starts("\u2212");
    plain += parting != kParting.end() ? ' ' : is_minus ? '-' : text.front();
    text.remove_prefix(parting != kParting.end() ? parting->size() : is_minus ? 3 : 1);
  }
  return plain;
}

// Takes the digits at the start, with what may stand among them.
std::string take_marked_digits(std::string_view& text) {
  const std::size_t length = std::min(text.find_first_not_of("+-0123456789., "), text.size());
  const std::string digits(trim(text.substr(0, length)));
  text.remove_prefix(length);
  return digits;
}

// Takes "e-3" at the start, if it is that.
std::string take_power(std::string_view& text) {
  if (!text.starts_with('e') && !text.starts_with('E')) return "";
  const std::size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 2 : 1;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", sign), text.size());
  const std::string exponent(end > sign ? text.substr(0, end) : "");
  text.remove_prefix(exponent.size());
  return exponent;
}

// Does each of these signs part a group of three digits from those before it?
bool parts_thousands(std::string_view digits, char sign) {
  for (std::size_t at = digits.find(sign); at != digits.npos; at = digits.find(sign, at + 1)) {
    const std::size_t end = std::min(digits.find_first_not_of("0123456789", at + 1), digits.size());
    if (end != at + 4 || at == 0 || !is_decimal_digit(digits[at - 1])) return false;
  }
  return true;
}

// The digits with one decimal point at most, and no other sign; empty: they are no number.
std::string with_point(const std::string& digits) {
  const std::size_t last = digits.find_last_of(",.");
  const bool is_decimal = last != digits.npos && std::ranges::count(digits, digits[last]) == 1;
  std::string whole = digits.substr(0, is_decimal ? last : digits.npos);
  for (const char sign : {' ', ',', '.'}) {
    if (!parts_thousands(whole, sign)) return "";
    std::erase(whole, sign);
  }
  return is_decimal ? whole + "." + digits.substr(last + 1) : whole;
}

// "mg/m2" and "mm Hg", and not "of 3".
bool is_unit(std::string_view text) {
  for (std::size_t at = text.find(' '); at != text.npos; at = text.find(' ', at + 1)) {
    if (text.find_first_of("0123456789", at) != text.npos) return false;
  }
  const auto first = static_cast<unsigned char>(text.front());
  return text.size() <= kLongestUnit &&
         (std::isalpha(first) != 0 || first == '%' || first == '$' || first >= 0x80);
}

// The number in `text` with `instead` in the place of every `part`; empty: none.
std::string repaired(std::string_view text, std::string_view part, std::string_view instead) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(part, at)) != result.npos; at += instead.size()) {
    result.replace(at, part.size(), instead);
  }
  return result != text && to_number(result) ? result : "";
}

// "1,234", which may be a thousand and more.
bool parts_one_group(std::string_view text) {
  const std::size_t comma = text.find(',');
  return comma + 4 == text.size() && text.find_first_not_of("0123456789", comma + 1) == text.npos;
}

}  // namespace

std::optional<NumberInText> written_number(std::string_view text) {
  const std::string plain = with_plain_signs(text);
  std::string_view rest = trim(plain);
  NumberInText found;
  found.comparison = take_one(kComparisons, rest);
  found.unit = take_one(kCurrencies, rest);
  const std::string digits = with_point(take_marked_digits(rest));
  if (std::ranges::none_of(digits, is_decimal_digit)) return std::nullopt;
  found.number = digits + take_power(rest);
  rest = trim(rest);
  if (!rest.empty() && (!found.unit.empty() || !is_unit(rest))) return std::nullopt;
  if (!rest.empty()) found.unit = rest;
  if (!to_number(found.number)) return std::nullopt;
  return found;
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
  const auto inner = written_number(text);
  const bool is_alone = inner && inner->comparison.empty() && inner->unit.empty();
  std::string number = meant_number(text);
  if (number.empty() && is_alone) number = inner->number;
  if (text.find(',') != text.npos && text.find_first_not_of("+-0123456789.,eE") == text.npos) {
    return "a number has a decimal point and no comma" + (number.empty() ? "" : ": " + number) +
           (parts_one_group(text) ? ", or without the comma where it parts thousands" : "");
  }
  if (!number.empty()) {
    return fmt::format("a character in it, seen or not, is none of a number: write {}", number);
  }
  if (text.find("0x") != text.npos || text.find("0X") != text.npos)
    return "write it in decimal digits";
  if (!inner) return "only the client column and class labels may be text";
  if (inner->comparison.empty()) return "write the number alone: " + inner->number;
  return "a value beyond a limit of detection is not known: write one number for all, half of the "
         "limit for example, or leave the cells empty, which data.missing fills";
}

}  // namespace hanse
