// The files of checkpoints: their names and seals, and the newest.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "checkpoint_format.hpp"
#include "hanse/base/error.hpp"
#include "hanse/store/checkpoint.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

const std::string kPrefix = "round-";
const std::string kSuffix = ".h5";
const std::string kTemporarySuffix = ".h5.tmp";

// File names in the folder; none if it is missing.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    names.push_back(it->path().filename().string());
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    throw IoError("cannot list the folder: " + code.message(), folder);
  }
  return names;
}

// The folder's checkpoints, newest first.
std::vector<FoundCheckpoint> checkpoints_in(const std::string& folder) {
  std::vector<FoundCheckpoint> found;
  for (const auto& name : names_in(folder)) {
    if (const auto round = round_of_name(name)) found.push_back({folder + "/" + name, *round});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.round > b.round; });
  return found;
}

void remove_file(const std::string& file) {
  std::error_code code;
  fs::remove(file, code);
  if (code) throw IoError("cannot remove the file: " + code.message(), file);
}

}  // namespace

std::optional<std::string> checkpoint_damage(const std::string& file) {
  return seal_damage(file, kCheckpointSeal);
}

std::string checkpoint_path(const std::string& folder, int64_t round) {
  return fmt::format("{}/{}{:06d}{}", folder, kPrefix, round, kSuffix);
}

std::string temporary_path(const std::string& folder, int64_t round) {
  return fmt::format("{}/.{}{:06d}{}", folder, kPrefix, round, kTemporarySuffix);
}

void remove_temporaries(const std::string& folder) {
  for (const auto& name : names_in(folder)) {
    // Older versions wrote through MPI-IO, which makes files for a moment: NAME.locktest.RANK.
    const bool is_temporary =
        name.starts_with("." + kPrefix) && name.find(kTemporarySuffix) != std::string::npos;
    if (is_temporary) remove_file(folder + "/" + name);
  }
}

std::optional<int64_t> round_of_name(const std::string& file_name) {
  static const std::regex pattern(kPrefix + "([0-9]{6,18})\\.h5");
  std::smatch match;
  if (!std::regex_match(file_name, match, pattern)) return std::nullopt;
  return std::stoll(match[1]);
}

void prune_checkpoints(const std::string& folder, int64_t keep, int64_t newest_round) {
  if (keep <= 0) return;
  int64_t seen = 0;
  for (const auto& checkpoint : checkpoints_in(folder)) {
    if (checkpoint.round > newest_round) continue;
    if (++seen > keep) remove_file(checkpoint.file);
  }
}

std::optional<FoundCheckpoint> newest_checkpoint(
    const std::string& folder,
    const std::function<void(const std::string&, const std::string&)>& skipped) {
  for (const auto& checkpoint : checkpoints_in(folder)) {
    const auto damage = checkpoint_damage(checkpoint.file);
    if (!damage) return checkpoint;
    skipped(checkpoint.file, *damage);
  }
  return std::nullopt;
}

}  // namespace hanse
