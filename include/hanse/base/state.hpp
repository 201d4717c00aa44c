// Named arrays: what a component must keep to go on bit for bit after a resume.
//
// A component is Stateful: it names its fields once, for writing and for reading. The checkpoint
// stores the whole map as HDF5 datasets of the same names.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <type_traits>
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
  // Copies that array into `out`. Throws IoError when the length differs.
  template <class T>
  void get_into(const std::string& name, std::span<T> out) const;
  // An array of one element. Throws IoError as get() does, or when it has another length.
  template <class T>
  T get_one(const std::string& name) const;
  const std::string& get_text(const std::string& name) const;

  bool contains(const std::string& name) const { return arrays_.count(name) != 0; }

  // Moves every array of `part` here, as "NAME/its name"; part() copies them out again.
  void put_part(const std::string& name, State&& part);
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

class Stateful;

// Names the fields of a component, to write them to a state or to read them from it. Cost: each
// array is copied once, however deep its component lies.
class StateFields {
 public:
  explicit StateFields(State& written) : written_(&written) {}
  explicit StateFields(const State& read) : read_(&read) {}

  bool loads() const { return read_ != nullptr; }
  // False where an older version wrote the state that is read, without this field.
  bool has(const std::string& name) const { return !read_ || read_->contains(prefix_ + name); }

  // A number; bool is kept as an int64_t.
  template <class T>
  void one(const std::string& name, T& value) {
    using Kept = std::conditional_t<std::is_same_v<T, bool>, int64_t, T>;
    if (read_) value = static_cast<T>(read_->get_one<Kept>(prefix_ + name));
    if (written_) written_->put(prefix_ + name, static_cast<Kept>(value));
  }
  // Several numbers in one array. Throws IoError when the state has more or fewer.
  template <class T>
  void numbers(const std::string& name, std::initializer_list<T*> values) {
    std::vector<T> kept;
    for (const T* value : values) kept.push_back(*value);
    fixed(name, kept);
    auto next = kept.begin();
    for (T* value : values) *value = *next++;
  }
  // An array of any length.
  template <class T>
  void all(const std::string& name, std::vector<T>& values) {
    if (read_) values = read_->get<T>(prefix_ + name);
    if (written_) written_->put(prefix_ + name, std::span<const T>(values));
  }
  // An array whose length is known. Throws IoError when the state has another one.
  template <class T>
  void fixed(const std::string& name, std::span<T> values) {
    if (read_) read_->get_into<T>(prefix_ + name, values);
    if (written_) written_->put(prefix_ + name, std::span<const T>(values));
  }
  template <class T, class Allocator>
  void fixed(const std::string& name, std::vector<T, Allocator>& values) {
    fixed(name, std::span(values));
  }
  // Arrays that the component does not know by name.
  void part(const std::string& name, State& arrays);
  // A component within this one: its fields are called "NAME/its name".
  void part(const std::string& name, Stateful& component);
  // A component whose fields stand among this one's, under their own names.
  void same(Stateful& component);

 private:
  State* written_ = nullptr;
  const State* read_ = nullptr;
  std::string prefix_;  // "participation/sampler/"
};

// A component that goes on bit for bit from the state that it saved.
class Stateful {
 public:
  virtual ~Stateful() = default;
  void save(State& state) const;
  // Throws IoError when a field is missing or does not fit.
  void load(const State& state);

 protected:
  // Names every field that is kept. What follows from them is computed anew if fields.loads().
  virtual void visit(StateFields&) {}

 private:
  friend class StateFields;
};

}  // namespace hanse
