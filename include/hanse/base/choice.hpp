// A choice is an enum whose values have names: the words that a job file writes. One function
// beside the enum is the only place of those words:
//
//   enum class Reduction { kExact, kFast };
//   constexpr auto choices_of(Reduction) { return std::array{"exact", "fast"}; }
//
// It lists one name a value, in the order of the values, which count from 0.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hanse {

template <class T>
concept Choice = std::is_enum_v<T> && requires(T value) {
  choices_of(value);
};

template <Choice T>
std::string name_of(T value) {
  return choices_of(value)[static_cast<std::size_t>(value)];
}

template <Choice T>
auto all_of() {
  std::array<T, choices_of(T{}).size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
  return values;
}

// The value of that name; nothing when none has it.
template <Choice T>
std::optional<T> value_of(std::string_view name) {
  for (const T value : all_of<T>()) {
    if (name == choices_of(value)[static_cast<std::size_t>(value)]) return value;
  }
  return std::nullopt;
}

// The names of all values.
template <Choice T>
std::vector<std::string> names_of_all() {
  const auto names = choices_of(T{});
  return {names.begin(), names.end()};
}

}  // namespace hanse
