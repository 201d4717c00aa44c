#include "folder_files.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace hanse {

namespace {

constexpr std::array kToolsNames = {"__MACOSX",
                                    "__pycache__",
                                    "@eaDir",
                                    "$RECYCLE.BIN",
                                    "#recycle",
                                    "lost+found",
                                    "System Volume Information"};
constexpr std::size_t kMostEndings = 6;

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

std::vector<std::pair<std::string, std::string>> files_of_pattern(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string name = fs::path(path).filename().string();
  const std::size_t star = name.find('*');
  std::error_code error;
  if (star == name.npos || fs::exists(path, error)) return {{path, ""}};
  const std::string front = name.substr(0, star), back = name.substr(star + 1);
  std::vector<std::pair<std::string, std::string>> files;
  const fs::path folder = fs::path(path).parent_path();
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string own = entry.path().filename().string();
    if (own.size() <= front.size() + back.size()) continue;
    if (!own.starts_with(front) || !own.ends_with(back) || entry.is_directory(error)) continue;
    const auto middle = own.substr(front.size(), own.size() - front.size() - back.size());
    files.emplace_back((folder / own).string(), middle);
  }
  std::ranges::sort(files, {}, &std::pair<std::string, std::string>::second);
  if (files.empty()) files.emplace_back(path, "");
  return files;
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
