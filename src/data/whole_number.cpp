#include "whole_number.hpp"

#include <algorithm>
#include <cstdint>

namespace hanse {

namespace {

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
