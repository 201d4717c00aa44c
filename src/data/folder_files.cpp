#include "folder_files.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

constexpr std::array kToolsNames = {"__MACOSX",
                                    "__pycache__",
                                    "@eaDir",
                                    "$RECYCLE.BIN",
                                    "#recycle",
                                    "lost+found",
                                    "System Volume Information"};
constexpr std::size_t kMostEndings = 6;

// A path with one star: FOLDER/FRONT*BACK/BELOW.
struct StarPath {
  explicit StarPath(const std::string& path) {
    bool is_behind = false;
    for (const fs::path& part : fs::path(path)) {
      const std::string name = part.string();
      const std::size_t star = name.find('*');
      if (star != name.npos) {
        front = name.substr(0, star);
        back = name.substr(star + 1);
        is_behind = true;
      } else {
        (is_behind ? below : shown) /= part;
      }
    }
    folder = shown.empty() ? "." : shown;
  }

  // What the star stands for in a name; nothing if the name is another.
  std::optional<std::string> middle_of(const std::string& name) const {
    if (name.size() <= front.size() + back.size()) return std::nullopt;
    if (!name.starts_with(front) || !name.ends_with(back)) return std::nullopt;
    return name.substr(front.size(), name.size() - front.size() - back.size());
  }

  std::string file_of(const std::string& name) const {
    const fs::path own = shown / name;
    return (below.empty() ? own : own / below).string();
  }

  fs::path shown, folder;   // as it is written, and as it is opened
  std::string front, back;  // of the star, in its part of the path
  fs::path below;           // empty: the star is in the file's name
};

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool is_hidden(const std::string& name) {
  return name.starts_with('.') || std::ranges::find(kToolsNames, name) != kToolsNames.end();
}

PatternFiles files_of_pattern(const std::string& path) {
  const std::size_t star = path.find('*');
  std::error_code error;
  if (star == path.npos || fs::exists(path, error)) return {.files = {{path, ""}}};
  if (path.find('*', star + 1) != path.npos) {
    throw InvalidArgument(fmt::format("'{}' has several stars", path), "data.path",
                          "one * stands in the files' name, or in the name of one folder: "
                          "sites/*.csv, sites/*/data.csv");
  }
  const StarPath parts(path);
  PatternFiles found;
  Unread unread;
  for (const auto& entry : fs::directory_iterator(parts.folder, error)) {
    const std::string own = entry.path().filename().string();
    const auto middle = parts.middle_of(own);
    const bool is_folder = entry.is_directory(error);
    if (!middle || is_folder == parts.below.empty()) continue;
    const std::string file = parts.file_of(own);
    if (is_hidden(own) && !parts.front.starts_with('.')) {
      unread.add_hidden(is_folder);
    } else if (!is_folder || fs::is_regular_file(file, error)) {
      found.files.emplace_back(file, *middle);
    } else {
      const std::string without = " without " + parts.below.string();
      unread.add("folder" + without, "folders" + without);
    }
  }
  std::ranges::sort(found.files, {}, &std::pair<std::string, std::string>::second);
  if (found.files.empty()) return {.files = {{path, ""}}};
  found.unread = unread.texts();
  return found;
}

void Unread::add(const std::string& one, const std::string& many, int64_t count) {
  if (count > 0) counts_[{one, many}] += count;
}

void Unread::add_file(const std::filesystem::path& path) {
  ++endings_[lower_case(path.extension().string())];
}

void Unread::add_hidden(bool is_folder) {
  if (is_folder) {
    add("hidden folder", "hidden folders");
  } else {
    add("hidden file", "hidden files");
  }
}

std::vector<std::string> Unread::texts() const {
  std::vector<std::pair<std::string, int64_t>> endings(endings_.begin(), endings_.end());
  std::ranges::stable_sort(endings, std::ranges::greater(),
                           &std::pair<std::string, int64_t>::second);
  auto all = counts_;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    const auto& [ending, count] = endings[i];
    const std::string kind = ending.empty() || i >= kMostEndings ? "other" : ending;
    all[{kind + " file", kind + " files"}] += count;
  }
  std::vector<std::string> texts;
  for (const auto& [words, count] : all) {
    texts.push_back(fmt::format("{} {}", count, count == 1 ? words.first : words.second));
  }
  return texts;
}

}  // namespace hanse
