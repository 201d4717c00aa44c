#include "hanse/base/options.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

// Reads a value of type T and checks its range.
template <class T>
T parse_in_range(std::string_view text, const Range& range) {
  if (!range.word.empty() && text == range.word) return 0;
  T value;
  if constexpr (std::is_same_v<T, int64_t>) {
    value = parse_integer(text);
  } else {
    value = parse_number(text);
  }
  if (range.contains(static_cast<double>(value))) return value;
  const std::string allowed = range.text();
  throw InvalidArgument(
      fmt::format("{} is out of range {}", text, allowed.empty() ? "(-inf, inf)" : allowed));
}

std::optional<bool> bool_in(std::string_view text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "1" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "0" || word == "no" || word == "off") return false;
  return std::nullopt;
}

// A number >= 0, or nothing for `word`.
std::optional<double> parse_number_or(std::string_view text, const std::string& word) {
  if (text == word) return std::nullopt;
  const auto value = number_in(text);
  if (!value || !at_least(0).contains(*value)) {
    throw InvalidArgument(fmt::format("unknown value '{}'", text), "",
                          fmt::format("known: {}, or a number of at least 0", word));
  }
  return value;
}

// The index of a name among the known ones. Throws InvalidArgument when it is not among them.
std::size_t index_of(const std::vector<std::string>& names, std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) {
    throw InvalidArgument(fmt::format("unknown value '{}'", text), "",
                          suggestion(std::string(text), names));
  }
  return static_cast<std::size_t>(found - names.begin());
}

// Where false and true are choices, each has its other words, too.
std::string choice_in(const std::vector<std::string>& choices, std::string_view text) {
  const auto value = std::ranges::count(choices, "false") > 0 ? bool_in(text) : std::nullopt;
  return choices[index_of(choices, value ? (*value ? "true" : "false") : text)];
}

// The kind may be chosen later: a value that one of the kinds accepts is accepted.
void parse_for_any(const Option& option, std::string_view text) {
  for (std::size_t i = 0; i + 1 < option.uses.size(); ++i) {
    try {
      return option.uses[i].parse(text);
    } catch (const InvalidArgument&) {
    }
  }
  option.uses.empty() ? option.parse(text) : option.uses.back().parse(text);
}

// The choice that leaves the option unused; that of its own section, where it has one.
std::string choosing_key(const Option& option) {
  const auto own = std::ranges::find_if(option.uses, [&](const KindUse& use) {
    return use.selector.starts_with(option.section() + ".");
  });
  return own == option.uses.end() ? option.uses.front().selector : own->selector;
}

}  // namespace

bool Range::contains(double x) const {
  if (!word.empty() && x == 0) return true;
  const bool above_low = low_open ? x > low : x >= low;
  const bool below_high = high_open ? x < high : x <= high;
  return above_low && below_high && std::isfinite(x);
}

std::string Range::text() const {
  const bool no_low = std::isinf(low) && low < 0;
  const bool no_high = std::isinf(high) && high > 0;
  if (no_low && no_high) return "";
  return fmt::format("{}{}{}, {}{}", word.empty() ? "" : word + " | ",
                     low_open || no_low ? "(" : "[", low, high, high_open || no_high ? ")" : "]");
}

bool Option::is_default() const {
  const std::string value = format();
  return value == unset_text || value == default_text;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

int64_t parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(fmt::format("'{}' is not an integer", text));
  }
  return value;
}

double parse_number(std::string_view text) {
  if (const auto value = number_in(text)) return *value;
  throw InvalidArgument(fmt::format("'{}' is not a number", text));
}

bool parse_bool(std::string_view text) {
  if (const auto value = bool_in(text)) return *value;
  throw InvalidArgument(fmt::format("'{}' is not true or false", text));
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> items;
  if (trim(text).empty()) return items;
  for (std::size_t begin = 0, end = 0; end < text.size(); begin = end + 1) {
    end = std::min(text.find(separator, begin), text.size());
    items.emplace_back(trim(text.substr(begin, end - begin)));
  }
  return items;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string join(std::span<const std::string> items, const std::string& separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

Option& OptionTable::append(Option option) {
  index_.try_emplace(option.key, options_.size());
  options_.push_back(std::move(option));
  return options_.back();
}

Option& OptionTable::append_with_default(Option option) {
  option.unset_text = option.default_text = option.format();
  return append(std::move(option));
}

template <class T>
Option& OptionTable::add(const std::string& key, T& field, Range range, const std::string& help) {
  if constexpr (std::is_arithmetic_v<T>) {
    return append_with_default(
        {.key = key,
         .help = help,
         .range = range.text(),
         .parse = [&field, range](auto text) { field = parse_in_range<T>(text, range); },
         .format =
             [&field, word = range.word] {
               return field == 0 && !word.empty() ? word : fmt::format("{}", field);
             }});
  } else {
    const auto parse = [&field, range](std::string_view text) {
      T values;
      for (const auto& item : split_list(text)) {
        values.push_back(parse_in_range<typename T::value_type>(item, range));
      }
      field = std::move(values);
    };
    return append_with_default(
        {.key = key,
         .help = help,
         .range = "list of " + range.text(),
         .parse = parse,
         .format = [&field] { return fmt::format("{}", fmt::join(field, ",")); }});
  }
}

template Option& OptionTable::add(const std::string&, int64_t&, Range, const std::string&);
template Option& OptionTable::add(const std::string&, double&, Range, const std::string&);
template Option& OptionTable::add(const std::string&, std::vector<int64_t>&, Range,
                                  const std::string&);
template Option& OptionTable::add(const std::string&, std::vector<double>&, Range,
                                  const std::string&);

Option& OptionTable::add(const std::string& key, bool& field, const std::string& help) {
  return append_with_default({.key = key,
                              .help = help,
                              .range = "true | false",
                              .parse = [&field](auto text) { field = parse_bool(text); },
                              .format = [&field] { return field ? "true" : "false"; }});
}

Option& OptionTable::add(const std::string& key, std::string& field, const std::string& help) {
  return append_with_default({.key = key,
                              .help = help,
                              .parse = [&field](auto text) { field = text; },
                              .format = [&field] { return field; }});
}

Option& OptionTable::add(const std::string& key, std::optional<double>& field,
                         const std::string& word, const std::string& help) {
  return append_with_default(
      {.key = key,
       .help = help,
       .parse = [&field, word](auto text) { field = parse_number_or(text, word); },
       .format = [&field, word] { return field ? fmt::format("{}", *field) : word; }});
}

Option& OptionTable::add_index(const std::string& key, std::vector<std::string> names,
                               const std::string& help, const IndexField& field) {
  return append_with_default(
      {.key = key,
       .help = help,
       .range = join(names, " | "),
       .choices = names,
       .parse = [set = field.set, names](auto text) { set(index_of(names, text)); },
       .format = [get = field.get, names] { return names[get()]; }});
}

Option& OptionTable::add_choice(const std::string& key, std::string& field,
                                std::vector<std::string> choices, const std::string& help) {
  return append_with_default(
      {.key = key,
       .help = help,
       .range = join(choices, " | "),
       .choices = choices,
       .parse = [&field, choices](auto text) { field = choice_in(choices, text); },
       .format = [&field] { return field; }});
}

void OptionTable::add_uses(const OptionTable& keys, const std::string& selector,
                           const std::string& kind) {
  for (const Option& key : keys.options_) {
    Option* option = find(key.key);
    if (!option) {
      option = &append(key);
      option->unset_text = option->format();
    }
    option->uses.push_back({.selector = selector,
                            .kind = kind,
                            .help = key.help,
                            .range = key.range,
                            .default_text = key.default_text,
                            .parse = key.parse});
  }
}

void OptionTable::let_change(std::span<const char* const> keys) {
  for (const char* key : keys) options_[index_.at(key)].may_change = true;
}

void OptionTable::gather_sections() {
  std::map<std::string, std::size_t> places;  // of sections, by their first options
  std::vector<std::pair<std::size_t, std::size_t>> order;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const auto known = places.try_emplace(options_[i].section(), places.size()).first;
    order.emplace_back(known->second, i);
  }
  std::ranges::sort(order);
  std::vector<Option> ungathered = std::exchange(options_, {});
  index_.clear();
  for (const auto& [section, i] : order) append(std::move(ungathered[i]));
}

Option* OptionTable::find(const std::string& key) {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &options_[found->second];
}

const Option& OptionTable::at(const std::string& key) const { return options_[index_.at(key)]; }

void OptionTable::set(const std::string& key, const std::string& text, const std::string& where) {
  Option* option = find(key);
  if (!option) throw unknown_key(key, where, options_);
  const std::string value(trim(text));
  if (const std::string hint = hint_of_other_key(*option, value, options_); !hint.empty()) {
    throw InvalidArgument(fmt::format("{}: unknown value '{}'", key, value), where, hint);
  }
  try {
    parse_for_any(*option, value);
  } catch (const InvalidArgument& error) {
    const std::string said = fmt::format("{}: {}", key, error.what());
    const bool has_hint = said.find("; hint: ") != std::string::npos;
    throw InvalidArgument(said, where, has_hint ? "" : hint_of_characters(value));
  }
  option->given = true;
  option->where = where;
}

std::vector<const KindUse*> OptionTable::chosen_uses(const Option& option,
                                                     const Reads& reads) const {
  std::vector<const KindUse*> chosen;
  for (const KindUse& use : option.uses) {
    const bool is_read = !reads || reads(use.selector);
    if (is_read && at(use.selector).format() == use.kind) chosen.push_back(&use);
  }
  return chosen;
}

bool OptionTable::is_used(const Option& option, const Reads& reads) const {
  return option.uses.empty() || !chosen_uses(option, reads).empty();
}

void OptionTable::resolve() {
  for (const Option& option : options_) {
    const auto chosen = chosen_uses(option);
    // Where kinds of several sections read it, its own section's kind gives the default.
    const auto own = std::ranges::find_if(chosen, [&](const KindUse* use) {
      return use->selector.starts_with(option.section() + ".");
    });
    for (const KindUse* use : chosen) {
      const bool other_default = own != chosen.end() && use != *own;
      if (!option.given && (other_default || use->default_text == option.format())) continue;
      try {
        use->parse(option.given ? option.format() : use->default_text);
      } catch (const InvalidArgument& error) {
        throw InvalidArgument(
            fmt::format("{}: {} for {} = {}", option.key, error.what(), use->selector, use->kind),
            option.where);
      }
    }
  }
}

std::vector<std::string> OptionTable::ignored(const Reads& reads) const {
  std::vector<std::string> keys;
  for (const Option& option : options_) {
    if (!option.given || option.is_default() || is_used(option, reads)) continue;
    const std::string chooser = choosing_key(option);
    keys.push_back(fmt::format("{} ({}={})", option.key, chooser, at(chooser).format()));
  }
  return keys;
}

}  // namespace hanse
