// What a plan says: lines for a person, or one JSON object.
#pragma once

#include <string>

#include "../json_text.hpp"

namespace hanse {

class PlanSheet {
 public:
  // Adds a line of the text.
  void line(const std::string& label, const std::string& value);
  // Adds a field of the object: a text, a double or an integer.
  void field(const std::string& key, const nlohmann::json& value) { fields_[key] = value; }
  // Adds both. The end of a key says the unit of a double: "_bytes" or "_seconds".
  void add(const std::string& key, const std::string& label, const nlohmann::json& value);

  std::string lines() const { return lines_; }
  std::string json() const { return json_dump(fields_, 2) + "\n"; }

 private:
  std::string lines_;
  nlohmann::ordered_json fields_;
};

}  // namespace hanse
