// The files of checkpoints: names, seal, which is the newest.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "checkpoint_format.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/store/checkpoint.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

const std::string kPrefix = "round-";
const std::string kSuffix = ".h5";
const std::string kTemporarySuffix = ".h5.tmp";

// File names in the folder; none when it is not there.
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

// Newest first.
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

// What is wrong with the block itself; fills `seal`.
std::optional<std::string> parse_seal(const std::string& block, Seal& seal) {
  if (!block.starts_with(kMagic + " ")) return "not a checkpoint: it does not begin with " + kMagic;
  std::istringstream text(block.substr(kMagic.size()));
  int64_t version = 0;
  std::string word;
  text >> version >> word >> seal.bytes >> word >> seal.digest;
  if (version != kCheckpointVersion) {
    return fmt::format("format version is not {}", kCheckpointVersion);
  }
  return seal.text() == block ? std::nullopt : std::optional<std::string>("its header is damaged");
}

}  // namespace

std::string Seal::text() const {
  std::string block =
      fmt::format("{} {}\nbytes {}\nxxh3 {}\n", kMagic, kCheckpointVersion, bytes, digest);
  block.resize(kUserBlockBytes, '\0');
  return block;
}

std::optional<std::string> check_seal(const std::string& file, Seal& seal) {
  std::error_code code;
  const auto bytes = static_cast<int64_t>(fs::file_size(file, code));
  if (code) return "cannot be read: " + code.message();
  std::string block(kUserBlockBytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(block.data(), kUserBlockBytes);
  if (bytes < kUserBlockBytes) return fmt::format("truncated to {} bytes", bytes);
  if (!in) return "cannot be read";
  if (const auto damage = parse_seal(block, seal)) return damage;
  if (bytes != seal.bytes) return fmt::format("{} bytes long, must be {}", bytes, seal.bytes);
  return std::nullopt;
}

std::optional<std::string> checkpoint_damage(const std::string& file) {
  Seal seal;
  if (const auto damage = check_seal(file, seal)) return damage;
  try {
    const std::string digest = file_digest_hex(file, kUserBlockBytes);
    if (digest == seal.digest) return std::nullopt;
    return fmt::format("damaged: its digest is {}, must be {}", digest, seal.digest);
  } catch (const IoError& error) {
    return error.what();
  }
}

std::string checkpoint_path(const std::string& folder, int64_t round) {
  return fmt::format("{}/{}{:06d}{}", folder, kPrefix, round, kSuffix);
}

std::string temporary_path(const std::string& folder, int64_t round) {
  return fmt::format("{}/.{}{:06d}{}", folder, kPrefix, round, kTemporarySuffix);
}

void remove_temporaries(const std::string& folder) {
  for (const auto& name : names_in(folder)) {
    const bool is_temporary = name.starts_with("." + kPrefix) && name.ends_with(kTemporarySuffix);
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
