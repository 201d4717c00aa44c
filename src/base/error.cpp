#include "hanse/base/error.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace hanse {

namespace {

std::string one_line(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = what;
  if (!where.empty()) text += " (" + where + ")";
  if (!hint.empty()) text += "; hint: " + hint;
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

}  // namespace

Error::Error(const std::string& what, const std::string& where, const std::string& hint)
    : std::runtime_error(one_line(what, where, hint)) {}

CommError::CommError(const std::string& what, int rank, int code)
    : Error(what, fmt::format("rank {}, code {}", rank, code)) {}

TrainingError::TrainingError(const std::string& what, int64_t client, int64_t round,
                             const std::string& hint)
    : Error(what, fmt::format("client {}, round {}", client, round), hint) {}

NotCompiled::NotCompiled(const std::string& part, const std::string& hint)
    : Error(part + " is not part of this build", "", hint) {}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::string errno_text() { return std::strerror(errno); }

}  // namespace hanse
