// How the files of a run are written as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace hanse {

// Texts from outside (a name, a path) may have bytes that are not UTF-8, which JSON cannot have:
// each is written as U+FFFD. With an `indent` of -1 all is one line.
inline std::string json_dump(const nlohmann::ordered_json& value, int indent = -1) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace hanse
