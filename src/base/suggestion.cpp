// The suggestions of messages about unknown keys and values.
#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

bool is_known(const std::string& text, std::span<const std::string> known) {
  return std::ranges::find(known, text) != known.end();
}

// "'a', 'b' or 'c'"
std::string one_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

std::vector<std::string> that_begin_with(const std::string& text,
                                         std::span<const std::string> known) {
  std::vector<std::string> longer;
  for (const std::string& one : known) {
    if (one.starts_with(text) && one != text) longer.push_back(one);
  }
  return longer;
}

// "learning-rate" -> "lr"
std::string initials(std::string_view name) {
  std::string letters;
  for (const auto& word : split_list(name, '-')) letters += word.substr(0, 1);
  return letters;
}

std::string last_part(const std::string& key) { return key.substr(key.find('.') + 1); }

// Known keys whose last part is that of `key`, or its initials; if there are none and `key` has no
// section, the keys with the nearest last part.
std::vector<std::string> same_last_part(const std::string& key, std::span<const Option> options) {
  std::string last = last_part(key);
  std::vector<std::string> parts;
  for (const Option& option : options) parts.push_back(last_part(option.key));
  const auto known = [&](const std::string& part) { return std::ranges::count(parts, part) > 0; };
  const std::string letters = initials(last);
  if (!known(last) && letters.size() > 1 && known(letters)) last = letters;
  if (!known(last) && last == key) last = nearest(key, parts);
  std::vector<std::string> keys;
  for (const Option& option : options) {
    if (last_part(option.key) == last) keys.push_back(option.key);
  }
  return keys;
}

// Keys that choose kinds.
std::set<std::string> choosing_keys(std::span<const Option> options) {
  std::set<std::string> keys;
  for (const Option& option : options) {
    for (const KindUse& use : option.uses) keys.insert(use.selector);
  }
  return keys;
}

// The keys other than `option` that can choose `kind`: "client.update = prox".
std::vector<std::string> choosers_of(const std::string& kind, const Option& option,
                                     std::span<const Option> options) {
  const std::set<std::string> choosers = choosing_keys(options);
  std::vector<std::string> found;
  for (const Option& one : options) {
    if (one.key == option.key || !choosers.contains(one.key)) continue;
    if (is_known(kind, one.choices)) found.push_back(fmt::format("{} = {}", one.key, kind));
  }
  return found;
}

// "fedprox" -> "prox"
std::string without_fed(const std::string& name) {
  if (!name.starts_with("fed")) return "";
  const std::size_t begin = name.find_first_not_of("-_", 3);
  return begin == std::string::npos ? "" : name.substr(begin);
}

// "fed-exp" -> "fedexp"
std::string letters_of(std::string name) {
  std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
  return lower_case(name);
}

// Keys whose help names the method: client.personal for fedbn.
std::vector<std::string> keys_that_tell_of(const std::string& method,
                                           std::span<const Option> options) {
  std::vector<std::string> keys;
  for (const Option& option : options) {
    if (lower_case(option.help).find(method) != std::string::npos) keys.push_back(option.key);
  }
  return keys;
}

}  // namespace

std::string nearest(const std::string& text, std::span<const std::string> known) {
  const std::string wanted = lower_case(text);
  const auto best = std::ranges::min_element(
      known, {}, [&](const std::string& one) { return edit_distance(wanted, lower_case(one)); });
  return best == known.end() ? std::string() : *best;
}

std::string suggestion(const std::string& text, std::span<const std::string> known) {
  constexpr std::size_t kMostShown = 3;
  std::vector<std::string> meant;
  if (text.size() > 1) meant = that_begin_with(lower_case(text), known);
  if (meant.empty()) meant.push_back(nearest(text, known));
  if (meant.size() > kMostShown) meant.resize(1);
  for (std::string& name : meant) name = "'" + name + "'";
  return fmt::format("did you mean {}? known: {}", one_of(meant), join(known, ", "));
}

// The error names the existing sections or keys, and the nearest.
InvalidArgument unknown_key(const std::string& key, const std::string& where,
                            std::span<const Option> options) {
  const std::string section = key.substr(0, key.find('.'));
  std::vector<std::string> sections, siblings, all;
  for (const Option& option : options) {
    all.push_back(option.key);
    if (sections.empty() || sections.back() != option.section()) {
      sections.push_back(option.section());
    }
    if (option.section() == section) siblings.push_back(option.key.substr(section.size() + 1));
  }
  const auto alike = same_last_part(key, options);
  const std::string respelled = nearest(section, sections) + "." + last_part(key);
  const bool has_section = section != key;
  const bool mistyped_section = has_section && std::ranges::count(alike, respelled) > 0;
  if (siblings.empty() && !alike.empty() && !mistyped_section) {
    return InvalidArgument(fmt::format("unknown key '{}'", key), where,
                           fmt::format("did you mean {}?", join(alike, " or ")));
  }
  if (siblings.empty()) {
    return InvalidArgument(fmt::format("unknown section '{}' in key '{}'", section, key), where,
                           fmt::format("did you mean '{}'? known sections: {}",
                                       nearest(section, sections), join(sections, ", ")));
  }
  const auto own = std::ranges::find_if(
      alike, [&](const std::string& one) { return one.starts_with(section + "."); });
  return InvalidArgument(
      fmt::format("unknown key '{}'", key), where,
      fmt::format("did you mean '{}'? known keys of [{}]: {}",
                  own == alike.end() ? nearest(key, all) : *own, section, join(siblings, ", ")));
}

std::string hint_of_other_key(const Option& option, const std::string& value,
                              std::span<const Option> options) {
  const auto former = std::ranges::find(option.former, value, &FormerChoice::name);
  if (former != option.former.end()) return former->hint;
  if (option.choices.empty() || is_known(value, option.choices)) return "";
  if (!choosing_keys(options).contains(option.key)) return "";
  const std::string name = lower_case(value);
  const std::string part = without_fed(name);
  std::vector<std::string> meant;
  for (const std::string& own : {name, part, "fed" + name}) {
    if (meant.empty() && is_known(own, option.choices)) meant.push_back(option.key + " = " + own);
  }
  if (meant.empty()) meant = choosers_of(name, option, options);
  if (meant.empty() && that_begin_with(name, option.choices).empty() && part.size() > 1) {
    meant = choosers_of(part, option, options);
    // FedAdam and FedYogi are steps of the server, not of clients.
    if (meant.size() > 1) {
      std::erase_if(meant, [](const std::string& one) { return one.starts_with("client."); });
    }
    const auto is_meant = [&](const std::string& own) {
      return letters_of(own) == letters_of(name);
    };
    const bool finds_itself = std::ranges::any_of(option.choices, is_meant);  // suggestion()
    if (meant.empty() && !finds_itself) meant = keys_that_tell_of(name, options);
  }
  if (meant.empty()) return "";
  return fmt::format("did you mean {}? known: {}", one_of(meant), join(option.choices, ", "));
}

std::string hint_of_characters(const std::string& value) {
  if (value.find("\u00a0") != std::string::npos)
    return "it has a space that does not break, U+00A0";
  for (const char* quote : {"\"", "'", "\u201c", "\u201d", "\u2018", "\u2019"}) {
    if (value.find(quote) != std::string::npos) return "values stand without quotes";
  }
  return "";
}

}  // namespace hanse
