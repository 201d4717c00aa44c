#include "hanse/rules/privacy/options.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

constexpr int kLeastExponent = -44;

// e of 2^e; nothing: it is no power of two.
std::optional<int> exponent_of(std::string_view text) {
  if (text.starts_with("2^")) {
    const auto power = number_in(text.substr(2));
    if (!power || *power != std::floor(*power) || std::abs(*power) > 1000) return std::nullopt;
    return static_cast<int>(*power);
  }
  const auto number = number_in(text);
  if (!number || !std::isfinite(*number) || *number <= 0) return std::nullopt;
  const int exponent = std::ilogb(*number);
  if (std::ldexp(1.0, exponent) != *number) return std::nullopt;
  return exponent;
}

}  // namespace

LatticeStep LatticeStep::parse(std::string_view text) {
  if (text == "auto") return {};
  const auto exponent = exponent_of(text);
  if (exponent && kLeastExponent <= *exponent && *exponent <= 0) return {exponent};
  throw InvalidArgument(exponent ? fmt::format("{} is outside [2^{}, 1]", text, kLeastExponent)
                                 : fmt::format("'{}' is no power of two", text),
                        "", "auto, or a power of two such as 2^-20");
}

std::string LatticeStep::text() const { return exponent ? fmt::format("2^{}", *exponent) : "auto"; }

NoiseSeed NoiseSeed::parse(std::string_view text) {
  if (text == "auto") return {};
  if (text == "system") return {.of_system = true};
  const int64_t number = parse_integer(text);
  if (number >= 1) return {.number = number};
  throw InvalidArgument(fmt::format("{} is below 1", number), "", "auto, system, or a number");
}

std::string NoiseSeed::text() const {
  if (of_system) return "system";
  return number > 0 ? fmt::format("{}", number) : "auto";
}

}  // namespace hanse
