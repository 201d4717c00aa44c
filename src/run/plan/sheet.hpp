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
  void field(const std::string& key, Value value);
  // Both. A key says its unit: "..._bytes", "..._seconds".
  void text(const std::string& key, const std::string& label, const std::string& value);
  void count(const std::string& key, const std::string& label, int64_t value);
  void bytes(const std::string& key, const std::string& label, double value);
  void seconds(const std::string& key, const std::string& label, double value);

  std::string lines() const { return lines_; }
  std::string json() const;

 private:
  std::string lines_;
  std::vector<std::pair<std::string, Value>> fields_;
};

}  // namespace hanse
