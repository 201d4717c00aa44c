#include "hanse/data/seal.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

struct Seal {
  int64_t bytes = 0;
  std::string digest;
  std::vector<ByteRange> without;
};

std::string text_of(const SealKind& kind, const Seal& seal) {
  std::string text =
      fmt::format("{} {}\nbytes {}\nxxh3 {}\n", kind.magic, kind.version, seal.bytes, seal.digest);
  if (!seal.without.empty()) text += "without";
  for (const ByteRange& range : seal.without) text += fmt::format(" {} {}", range.begin, range.end);
  if (!seal.without.empty()) text += "\n";
  text.resize(kSealBytes, '\0');
  return text;
}

// Returns the block's fault; fills `seal`.
std::optional<std::string> parse(const std::string& block, const SealKind& kind, Seal& seal) {
  if (!block.starts_with(kind.magic + " ")) return "it does not begin with " + kind.magic;
  std::istringstream text(block.substr(kind.magic.size()));
  int64_t version = 0;
  std::string word;
  text >> version >> word >> seal.bytes >> word >> seal.digest >> word;
  if (version != kind.version) return fmt::format("format version is not {}", kind.version);
  for (ByteRange range; word == "without" && text >> range.begin >> range.end;) {
    seal.without.push_back(range);
  }
  return text_of(kind, seal) == block ? std::nullopt
                                      : std::optional<std::string>("its header is damaged");
}

std::optional<std::string> read_seal(const std::string& path, const SealKind& kind, Seal& seal) {
  std::error_code code;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, code));
  if (code) return "cannot be read: " + code.message();
  std::string block(kSealBytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(block.data(), kSealBytes);
  if (bytes < kSealBytes) return fmt::format("truncated to {} bytes", bytes);
  if (!in) return "cannot be read";
  if (auto damage = parse(block, kind, seal)) return damage;
  if (bytes != seal.bytes) return fmt::format("{} bytes long, must be {}", bytes, seal.bytes);
  return std::nullopt;
}

// Does the file begin with the magic word? No if it cannot be read.
bool is_sealed(const std::string& path, const SealKind& kind) {
  std::string word(kind.magic.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(word.data(), std::ssize(word));
  return in && word == kind.magic;
}

}  // namespace

std::string seal_of(const std::string& path, const SealKind& kind,
                    const std::vector<ByteRange>& without) {
  return text_of(kind, {static_cast<int64_t>(std::filesystem::file_size(path)),
                        file_digest_hex(path, kSealBytes, without), without});
}

std::optional<std::string> seal_fault(const std::string& path, const SealKind& kind) {
  Seal seal;
  return read_seal(path, kind, seal);
}

std::optional<std::string> damage_if_sealed(const std::string& path, const SealKind& kind) {
  return is_sealed(path, kind) ? seal_damage(path, kind) : std::nullopt;
}

std::optional<std::string> seal_damage(const std::string& path, const SealKind& kind) {
  Seal seal;
  if (auto damage = read_seal(path, kind, seal)) return damage;
  try {
    const std::string digest = file_digest_hex(path, kSealBytes, seal.without);
    if (digest == seal.digest) return std::nullopt;
    return fmt::format("damaged: its digest is {}, must be {}", digest, seal.digest);
  } catch (const IoError& error) {
    return error.what();
  }
}

}  // namespace hanse
