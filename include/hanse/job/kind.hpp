// What a job file knows of a kind: a name that one of its keys chooses, with the keys of its own.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

struct Job;

struct KindRow {
  std::string name;     // "osmd"
  std::string summary;  // one line
  // Adds the keys that the kind reads, of any section; null: it has none of its own.
  void (*keys)(KindKeys& keys, Job& job) = nullptr;
  // Checks what can be checked without data, when the kind is chosen. Throws InvalidArgument. Null:
  // nothing.
  void (*check)(const Job& job) = nullptr;
};

// One family of kinds: "samplers", chosen by "sampler.kind".
struct KindFamily {
  std::string name;
  std::string key;
  std::string help;                  // of the key
  std::string& (*choice)(Job& job);  // the field of the key
  std::vector<KindRow> rows;

  std::string section() const { return key.substr(0, key.find('.')); }
};

// While it lives, a field has the default of one kind: what KindKeys::add() takes as the key's.
template <class T>
class KindDefault {
 public:
  KindDefault(T& field, T value) : field_(field), shared_(std::exchange(field, value)) {}
  ~KindDefault() { field_ = shared_; }
  KindDefault(const KindDefault&) = delete;
  KindDefault& operator=(const KindDefault&) = delete;

 private:
  T& field_;
  T shared_;
};

template <class Kinds>
std::vector<KindRow> rows_of(const Kinds& kinds) {
  std::vector<KindRow> rows;
  for (const auto& kind : kinds) rows.push_back(kind.row);
  return rows;
}

std::vector<std::string> names_of(const std::vector<KindRow>& rows);

// "unknown value 'x'" of a key, with the nearest of the known ones.
InvalidArgument unknown_kind(const std::string& key, const std::string& name,
                             const std::vector<std::string>& known);

// The kind of that name in a table of structs with a KindRow `row`. Throws InvalidArgument that
// names `key` and the known kinds.
template <class Kinds>
const auto& find_kind(const Kinds& kinds, const std::string& key, const std::string& name) {
  const auto found = std::find_if(std::begin(kinds), std::end(kinds),
                                  [&](const auto& kind) { return kind.row.name == name; });
  if (found == std::end(kinds)) throw unknown_kind(key, name, names_of(rows_of(kinds)));
  return *found;
}

}  // namespace hanse
