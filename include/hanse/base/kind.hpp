// A kind is a name that one key of a job file chooses: "osmd" of sampler.kind. One row owns all
// that is known of it, its own keys included.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

// Keys of a kind, bound to fields of Options; a list of lists of keys is one list, too.
template <class Options>
class Keys {
 public:
  using Bind = std::function<void(OptionTable& table, Options& options)>;

  Keys() = default;
  explicit Keys(Bind bind) : binds_{std::move(bind)} {}
  Keys(std::initializer_list<Keys> parts) {
    for (const Keys& part : parts) {
      binds_.insert(binds_.end(), part.binds_.begin(), part.binds_.end());
    }
  }

  void bind(OptionTable& table, Options& options) const {
    for (const Bind& bind : binds_) bind(table, options);
  }

 private:
  std::vector<Bind> binds_;
};

// Makes keys of one section: key("tail", &AggregatorOptions::tail, above_to(0, 1), "share ...") is
// aggregator.tail. `Place` finds the section in the options: a pointer to a member, or a function.
template <class Options, class Place>
struct KeyMaker {
  // As OptionTable::add() and OptionTable::add_choice().
  template <class Field, class... Rest>
  Keys<Options> operator()(const std::string& name, Field field, Rest... rest) const {
    return Keys<Options>([key = section + "." + name, place = place, field, rest...](
                             OptionTable& table, Options& options) {
      table.add(key, std::invoke(field, std::invoke(place, options)), rest...);
    });
  }
  template <class Field>
  Keys<Options> choice(const std::string& name, Field field, std::vector<std::string> choices,
                       const std::string& help) const {
    return Keys<Options>([key = section + "." + name, place = place, field, choices, help](
                             OptionTable& table, Options& options) {
      table.add_choice(key, std::invoke(field, std::invoke(place, options)), choices, help);
    });
  }

  std::string section;
  Place place;
};

// Makes keys whose Options are one section.
template <class Options, class Place = std::identity>
KeyMaker<Options, Place> keys_of(const std::string& section, Place place = {}) {
  return {section, place};
}

// Keys of a section as keys of the options in which `place` finds it.
template <class Options, class Section, class Place>
Keys<Options> placed(const Keys<Section>& keys, Place place) {
  return Keys<Options>(
      [=](OptionTable& table, Options& options) { keys.bind(table, std::invoke(place, options)); });
}

// Copies the keys and gives one field another default.
template <class Options, class Field, class Value>
Keys<Options> with_default(const Keys<Options>& keys, Field field, Value value) {
  return Keys<Options>([=](OptionTable& table, Options& options) {
    const auto shared = std::exchange(std::invoke(field, options), value);
    keys.bind(table, options);
    std::invoke(field, options) = shared;
  });
}

template <class Options>
struct KindRow {
  std::string name;     // "osmd"
  std::string summary;  // one line
  Keys<Options> keys;   // those that the kind reads and others do not
  // Checks the options without data, if the kind is chosen. Throws InvalidArgument. May be null.
  std::function<void(const Options& options)> check;
  bool cpus_alone = false;  // GPUs do not train jobs that choose it
};

inline constexpr bool kCpusAlone = true;  // the last entry of a row

template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

// The row of that name. Throws InvalidArgument that names `key` and the known kinds.
template <class Rows>
const auto& find_kind(const Rows& rows, const std::string& key, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  if (found != rows.end()) return *found;
  throw InvalidArgument("unknown value '" + name + "'", key, suggestion(name, names_of(rows)));
}

}  // namespace hanse
