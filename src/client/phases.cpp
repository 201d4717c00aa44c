#include "hanse/client/phases.hpp"

#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kHint = "e.g. personal 10, shared 5";

LocalPhases::Phase parse_phase(const std::string& text) {
  const auto space = text.find_last_of(" \t");
  if (space == std::string::npos) {
    throw InvalidArgument(fmt::format("'{}' is no part and a number", text), "", kHint);
  }
  const LocalPhases::Phase phase{std::string(trim(std::string_view(text).substr(0, space))),
                                 parse_integer(std::string_view(text).substr(space + 1))};
  if (phase.length >= 1) return phase;
  throw InvalidArgument(fmt::format("a phase of {}", phase.length), "", "a phase has 1 at least");
}

}  // namespace

LocalPhases LocalPhases::parse(std::string_view text) {
  LocalPhases phases;
  for (const std::string& item : split_list(text)) phases.list.push_back(parse_phase(item));
  return phases;
}

std::string LocalPhases::text() const {
  std::string text;
  for (const Phase& phase : list) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", phase.part, phase.length);
  }
  return text;
}

int64_t LocalPhases::length() const {
  int64_t sum = 0;
  for (const Phase& phase : list) {
    if (__builtin_add_overflow(sum, phase.length, &sum)) return std::numeric_limits<int64_t>::max();
  }
  return sum;
}

}  // namespace hanse
