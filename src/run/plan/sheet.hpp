// What a plan says: lines for a person, or one JSON object.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hanse {

class PlanSheet {
 public:
  using Value = std::variant<int64_t, double, std::string>;

  // A line of the text.
  void line(const std::string& label, const std::string& value);
  // A field of the object.
  void field(const std::string& key, Value value) { fields_.emplace_back(key, std::move(value)); }
  // Both. The end of a key says the unit of a double: "_bytes" or "_seconds".
  void add(const std::string& key, const std::string& label, const Value& value);

  std::string lines() const { return lines_; }
  std::string json() const;

 private:
  std::string lines_;
  std::vector<std::pair<std::string, Value>> fields_;
};

}  // namespace hanse
