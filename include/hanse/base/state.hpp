// Named arrays: what a component must keep to go on bit for bit after a resume.
//
// A component writes its fields with put() and reads the same names with get(); put_part() nests
// components. The checkpoint stores the whole map as HDF5 datasets of the same names.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hanse {

using StateArray =
    std::variant<std::vector<int64_t>, std::vector<double>, std::vector<float>, std::string>;

class State {
 public:
  void put(const std::string& name, std::span<const int64_t> values);
  void put(const std::string& name, std::span<const double> values);
  void put(const std::string& name, std::span<const float> values);
  void put(const std::string& name, int64_t value) { put(name, std::span(&value, 1)); }
  void put(const std::string& name, double value) { put(name, std::span(&value, 1)); }
  void put_text(const std::string& name, std::string text);

  // The array of that name. T is int64_t, double or float. Throws IoError when it is missing or of
  // another type.
  template <class T>
  const std::vector<T>& get(const std::string& name) const;
  // The same, copied into `out`. Throws IoError when the length differs.
  template <class T>
  void get_into(const std::string& name, std::span<T> out) const;
  // An array of one element. Throws IoError as get() does, or when it has another length.
  template <class T>
  T get_one(const std::string& name) const;
  const std::string& get_text(const std::string& name) const;

  bool contains(const std::string& name) const { return arrays_.count(name) != 0; }

  // Adds every array of `part` as "NAME/its name"; part() takes them out again.
  void put_part(const std::string& name, const State& part);
  State part(const std::string& name) const;

  // Sorted by name. Names use '/' between parts.
  const std::map<std::string, StateArray>& arrays() const { return arrays_; }
  void insert(const std::string& name, StateArray array) { arrays_[name] = std::move(array); }

 private:
  const StateArray& at(const std::string& name) const;
  template <class Values>
  const Values& held(const std::string& name) const;

  std::map<std::string, StateArray> arrays_;
};

}  // namespace hanse
