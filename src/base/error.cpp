#include "hanse/base/error.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "hanse/base/text.hpp"

namespace hanse {

namespace {

std::string one_line(const std::string& what, const std::string& where, const std::string& hint) {
  std::string text = what;
  if (!where.empty()) text += " (" + where + ")";
  if (!hint.empty()) text += "; hint: " + hint;
  return printable(text);
}

}  // namespace

Error::Error(const std::string& what, const std::string& where, const std::string& hint)
    : std::runtime_error(one_line(what, where, hint)) {}

CommError::CommError(const std::string& what, int rank, int code)
    : Error(what, fmt::format("rank {}, code {}", rank, code)) {}

TrainingError::TrainingError(const std::string& what, int64_t client, int64_t round,
                             const std::string& hint)
    : Error(what,
            client < 0 ? fmt::format("round {}", round)
                       : fmt::format("client {}, round {}", client, round),
            hint),
      what_(what),
      hint_(hint),
      client_(client),
      round_(round) {}

TrainingError::TrainingError(const TrainingError& other, const std::string& label)
    : Error(other.what_, fmt::format("{}, round {}", label, other.round_), other.hint_),
      what_(other.what_),
      hint_(other.hint_),
      client_(other.client_),
      round_(other.round_) {}

TrainingError TrainingError::called(const std::string& label) const { return {*this, label}; }

NotCompiled::NotCompiled(const std::string& part, const std::string& hint)
    : Error(part + " is not part of this build", "", hint) {}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::string missing_text(const std::string& path, const std::string& what) {
  if (path.empty()) return fmt::format("no {} is named", what);
  std::error_code code;
  const auto folder = std::filesystem::current_path(code);
  const bool is_relative = !std::filesystem::path(path).is_absolute() && !code;
  return fmt::format("no such {}: {}{}", what, path,
                     is_relative ? ", looked for in " + folder.string() : "");
}

std::string errno_text() { return std::strerror(errno); }

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

}  // namespace hanse
