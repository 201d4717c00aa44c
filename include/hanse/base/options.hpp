// A table of named options bound to the fields of plain structs: "section.key" -> field, with the
// unit, default and range in its help. Parsing is strict: the whole text must be one value, NaN is
// never in range, and an unknown key or value names the nearest known one.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hanse/base/choice.hpp"
#include "hanse/base/former_choice.hpp"

namespace hanse {

class InvalidArgument;

// Allowed numbers: low <(=) x <(=) high. NaN and the infinities are in no range.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
  // The text by which the user lets the program choose, "auto"; the field is then 0, even where 0
  // is outside the range. Empty: there is none.
  std::string word = {};

  bool contains(double x) const;
  std::string text() const;  // "(0, 1]"; empty when every finite number is allowed
};

inline Range at_least(double low) { return {.low = low}; }
inline Range above(double low) { return {.low = low, .low_open = true}; }
inline Range between(double low, double high) { return {.low = low, .high = high}; }
inline Range above_to(double low, double high) {
  return {.low = low, .high = high, .low_open = true};
}
inline Range or_auto(Range range) {
  range.word = "auto";
  return range;
}
inline Range from_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}

// How one kind, such as osmd of sampler.kind, reads a key: its own default, range and help.
struct KindUse {
  std::string selector;  // "sampler.kind"
  std::string kind;      // "osmd"
  std::string help;
  std::string range;
  std::string default_text;
  std::function<void(std::string_view)> parse;
};

struct Option {
  std::string key;    // "client.lr"
  std::string help;   // meaning, unit, trade-off
  std::string range;  // "(0, inf)" or "a | b | c"; may be empty
  std::string default_text;
  std::string unset_text;     // the unset field's value, for kinds without the key
  std::vector<KindUse> uses;  // by the kinds that read the key; empty: all read it
  std::vector<std::string> choices;
  std::vector<FormerChoice> former;
  std::function<void(std::string_view)> parse;  // throws InvalidArgument
  std::function<std::string()> format;          // the field's value; parse(format()) is identity
  bool may_change = false;                      // by a resumed run
  bool given = false;                           // set by the user
  std::string where;                            // where the user set it: "job.cfg:12", "--a.b"

  // Has the field the value that it has when nobody sets it?
  bool is_default() const;
  std::string section() const { return key.substr(0, key.find('.')); }
};

using Overrides = std::vector<std::pair<std::string, std::string>>;  // key, value

// A value with a text of its own: parse() throws InvalidArgument, and parse(text()) is identity.
template <class T>
concept TextValue = requires(const T& value, std::string_view text) {
  { T::parse(text) } -> std::same_as<T>;
  { value.text() } -> std::same_as<std::string>;
};

class OptionTable {
 public:
  // Is this key, which chooses a kind, read at all?
  using Reads = std::function<bool(const std::string& key)>;

  // Binds a key to a field; the field's present value is the default. The field must outlive the
  // table. The returned reference is valid until the next add.
  // T: int64_t, double, or a vector of either, which is a list separated by commas.
  template <class T>
  Option& add(const std::string& key, T& field, Range range, const std::string& help);
  Option& add(const std::string& key, bool& field, const std::string& help);
  Option& add(const std::string& key, std::string& field, const std::string& help);
  // A number >= 0, or `word`: no number, the program chooses.
  Option& add(const std::string& key, std::optional<double>& field, const std::string& word,
              const std::string& help);
  Option& add_choice(const std::string& key, std::string& field, std::vector<std::string> choices,
                     const std::string& help);
  // One of the enum's names.
  template <Choice T>
  Option& add(const std::string& key, T& field, const std::string& help) {
    return add_index(key, names_of_all<T>(), help,
                     {.set = [&field](std::size_t i) { field = static_cast<T>(i); },
                      .get = [&field] { return static_cast<std::size_t>(field); }});
  }

  template <TextValue T>
  Option& add(const std::string& key, T& field, const std::string& help) {
    return append_with_default({.key = key,
                                .help = help,
                                .parse = [&field](auto text) { field = T::parse(text); },
                                .format = [&field] { return field.text(); }});
  }

  // Adds the options of `keys` as keys of one kind: a new key at the end, a known key as a further
  // use. REQUIRES: kinds that share a key bind it to one field.
  void add_uses(const OptionTable& keys, const std::string& selector, const std::string& kind);
  // A resumed run may change these. REQUIRES: they are known.
  void let_change(std::span<const char* const> keys);
  // Brings the options of each section together: sections in the order of their first options, and
  // options within one in the order of their adds.
  void gather_sections();

  // Sets a field from text. `where` says where the text stands, for the message. Throws
  // InvalidArgument: unknown key, text that is no value of the type, value out of range.
  void set(const std::string& key, const std::string& text, const std::string& where);

  bool contains(const std::string& key) const { return index_.contains(key); }
  const Option& at(const std::string& key) const;  // REQUIRES: contains(key)
  // In the order of add(), or of gather_sections().
  std::span<const Option> options() const { return options_; }

  // Call it when all keys are set: a key that the user did not give gets the default of the chosen
  // kind, and a given one must be in that kind's range. Throws InvalidArgument.
  void resolve();

  // The uses by kinds that are chosen, if their selectors are read.
  std::vector<const KindUse*> chosen_uses(const Option& option, const Reads& reads = {}) const;
  // Does every kind read the key, or a chosen one?
  bool is_used(const Option& option, const Reads& reads = {}) const;

  // Keys the user gave that no chosen kind uses, each with the choice: "sampler.eta
  // (sampler.kind=uniform)". Keys at their defaults are left out: a run's own job.cfg gives them
  // all.
  std::vector<std::string> ignored(const Reads& reads = {}) const;

 private:
  // A field that holds an index into a list of names.
  struct IndexField {
    std::function<void(std::size_t)> set;
    std::function<std::size_t()> get;
  };
  Option& add_index(const std::string& key, std::vector<std::string> names, const std::string& help,
                    const IndexField& field);
  Option& append(Option option);
  Option& append_with_default(Option option);
  Option* find(const std::string& key);

  std::vector<Option> options_;
  std::unordered_map<std::string, std::size_t> index_;  // of each key in options_
};

// Strict parsers: the whole text is one value. Throw InvalidArgument.
int64_t parse_integer(std::string_view text);
double parse_number(std::string_view text);
bool parse_bool(std::string_view text);  // true|false|1|0|yes|no|on|off, in any case
std::vector<std::string> split_list(std::string_view text, char separator = ',');  // trimmed items

// Element of `known` with the smallest edit distance to `text`, in any case; empty when `known` is.
std::string nearest(const std::string& text, std::span<const std::string> known);
// "did you mean 'osmd'? known: uniform, osmd": the nearest, or the names that begin with the text,
// and no more than the first three.
std::string suggestion(const std::string& text, std::span<const std::string> known);

// The error names the existing sections or keys, and the nearest.
InvalidArgument unknown_key(const std::string& key, const std::string& where,
                            std::span<const Option> options);
// A hint where a value chooses no kind but is a method of another key: "did you mean client.update
// = prox?", also for fedprox. Empty: it is not.
std::string hint_of_other_key(const Option& option, const std::string& value,
                              std::span<const Option> options);
// A hint at characters that a reader does not see as part of a value; empty: it has none.
std::string hint_of_characters(const std::string& value);

std::string join(std::span<const std::string> items, const std::string& separator);
std::string_view trim(std::string_view text);
std::string lower_case(std::string_view text);  // of ASCII

}  // namespace hanse
