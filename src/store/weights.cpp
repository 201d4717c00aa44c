#include "hanse/store/weights.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "hanse/store/model_file.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kLongestIndex = 64 << 20;

enum class Format { kTorch, kOldTorch, kIndex, kHdf5, kSafetensors };

Format format_of(const std::string& path) {
  std::string begin(16, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), std::ssize(begin));
  begin.resize(to_index(file.gcount()));
  if (begin.starts_with("PK")) return Format::kTorch;
  if (begin.starts_with("\x80\x02\x8a\x0a")) return Format::kOldTorch;
  if (begin.size() > 8 && begin[8] == '{') return Format::kSafetensors;
  if (begin.starts_with("{")) return Format::kIndex;
  return Format::kHdf5;  // whose signature may stand behind a seal
}

using Shards = std::map<std::string, std::set<std::string>>;  // file -> the names of its tensors

// The files lie beside the index: their names lead nowhere else.
Shards shards_of(const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    throw InvalidArgument("no index of weights: " + what, path, kReadableWeights);
  };
  const FileBytes file(path);
  if (std::ssize(file.view()) > kLongestIndex) refuse("it is too long");
  const auto index = nlohmann::json::parse(file.view(), nullptr, /*allow_exceptions=*/false);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) refuse("it has no weight_map");
  Shards shards;
  for (const auto& [name, shard] : map->items()) {
    const std::string at = shard.is_string() ? shard.get<std::string>() : "";
    if (at.empty() || at.find('/') != std::string::npos || at.find('\0') != std::string::npos ||
        at == "." || at == "..") {
      refuse(fmt::format("{} lies in no file beside it", printable(name)));
    }
    shards[at].insert(name);
  }
  return shards;
}

std::string beside(const std::string& path, const std::string& name) {
  return (fs::path(path).parent_path() / name).string();
}

void take_shard(const std::string& path, const std::set<std::string>& names, WeightFile& all) {
  if (!fs::is_regular_file(path))
    throw InvalidArgument(missing_text(path), "model.start", kReadableWeights);
  if (format_of(path) == Format::kIndex) {
    throw InvalidArgument("a shard is an index itself", path, kReadableWeights);
  }
  WeightFile shard = read_weights(path);
  for (NamedTensor& tensor : shard.tensors) {
    if (names.contains(tensor.name)) all.tensors.push_back(std::move(tensor));
  }
  all.same.merge(shard.same);
  all.left_out.merge(shard.left_out);
  all.too_large.merge(shard.too_large);
}

}  // namespace

WeightFile read_weights(const std::string& path) {
  switch (format_of(path)) {
    case Format::kTorch: return read_torch_file(path);
    case Format::kSafetensors: return read_safetensors(path);
    case Format::kHdf5: return read_model(path);
    case Format::kOldTorch:
      throw InvalidArgument("the file is of torch.save before torch 1.6", path,
                            "load it and save it again with a newer torch");
    case Format::kIndex: break;
  }
  WeightFile all;
  for (const auto& [shard, names] : shards_of(path)) take_shard(beside(path, shard), names, all);
  return all;
}

std::vector<std::string> weight_files(const std::string& path) {
  std::vector<std::string> files = {path};
  if (format_of(path) != Format::kIndex) return files;
  for (const auto& [shard, names] : shards_of(path)) files.push_back(beside(path, shard));
  return files;
}

}  // namespace hanse
