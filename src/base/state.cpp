#include "hanse/base/state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

void State::put(const std::string& name, std::span<const int64_t> values) {
  arrays_[name] = std::vector<int64_t>(values.begin(), values.end());
}
void State::put(const std::string& name, std::span<const double> values) {
  arrays_[name] = std::vector<double>(values.begin(), values.end());
}
void State::put(const std::string& name, std::span<const float> values) {
  arrays_[name] = std::vector<float>(values.begin(), values.end());
}
void State::put_text(const std::string& name, std::string text) { arrays_[name] = std::move(text); }

const StateArray& State::at(const std::string& name) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    throw IoError(fmt::format("state '{}' is missing", name), "checkpoint",
                  "the job that wrote it used other components");
  }
  return found->second;
}

template <class Values>
const Values& State::held(const std::string& name) const {
  const auto* values = std::get_if<Values>(&at(name));
  if (!values) throw IoError(fmt::format("state '{}' has another type", name), "checkpoint");
  return *values;
}

template <class T>
const std::vector<T>& State::get(const std::string& name) const {
  return held<std::vector<T>>(name);
}

const std::string& State::get_text(const std::string& name) const {
  return held<std::string>(name);
}

template <class T>
void State::get_into(const std::string& name, std::span<T> out) const {
  const auto& values = get<T>(name);
  if (values.size() != out.size()) {
    throw IoError(
        fmt::format("state '{}' has {} values, expected {}", name, values.size(), out.size()),
        "checkpoint");
  }
  std::copy(values.begin(), values.end(), out.begin());
}

template <class T>
T State::get_one(const std::string& name) const {
  T value{};
  get_into<T>(name, std::span<T>(&value, 1));
  return value;
}

void State::put_part(const std::string& name, State&& part) {
  while (!part.arrays_.empty()) {
    auto node = part.arrays_.extract(part.arrays_.begin());
    insert(name + "/" + node.key(), std::move(node.mapped()));
  }
}

State State::part(const std::string& name) const {
  const std::string prefix = name + "/";
  State result;
  for (auto it = arrays_.lower_bound(prefix); it != arrays_.end() && it->first.starts_with(prefix);
       ++it) {
    result.arrays_[it->first.substr(prefix.size())] = it->second;
  }
  return result;
}

void StateFields::part(const std::string& name, State& arrays) {
  if (read_) arrays = read_->part(prefix_ + name);
  if (written_) written_->put_part(prefix_ + name, State(arrays));
}

void StateFields::part(const std::string& name, Stateful& component) {
  StateFields fields = *this;
  fields.prefix_ += name + "/";
  component.visit(fields);
}

void StateFields::same(Stateful& component) { component.visit(*this); }

void Stateful::save(State& state) const {
  StateFields fields(state);
  const_cast<Stateful*>(this)->visit(fields);  // only reads the fields that it writes out
}

void Stateful::load(const State& state) {
  StateFields fields(state);
  visit(fields);
}

template const std::vector<int64_t>& State::get(const std::string&) const;
template const std::vector<double>& State::get(const std::string&) const;
template const std::vector<float>& State::get(const std::string&) const;
template void State::get_into(const std::string&, std::span<int64_t>) const;
template void State::get_into(const std::string&, std::span<double>) const;
template void State::get_into(const std::string&, std::span<float>) const;
template int64_t State::get_one(const std::string&) const;
template double State::get_one(const std::string&) const;
template float State::get_one(const std::string&) const;

}  // namespace hanse
