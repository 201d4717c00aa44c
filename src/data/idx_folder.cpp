#include "idx_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "folder_files.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

enum Role : std::size_t { kTrainImages, kTrainLabels, kTestImages, kTestLabels, kRoles };

// "emnist-letters-train-images-idx3-ubyte.gz" is the training images of "emnist-letters".
struct IdxName {
  std::string set;  // empty: MNIST's own names
  Role role;
};

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : lower_case(name)) {
    if (c == '-' || c == '_' || c == '.') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::ranges::find(words, word) != words.end();
}

// Empty: no such file has this name.
std::optional<IdxName> parse_name(const std::string& name) {
  std::vector<std::string> words = words_of(name);
  if (words.back() == "gz") words.pop_back();
  std::size_t end = words.size();
  while (end > 0 && is_one_of(words[end - 1], {"idx", "idx1", "idx3", "ubyte"})) --end;
  if (end == words.size() || end < 2) return std::nullopt;
  const std::string &part = words[end - 2], &kind = words[end - 1];
  const bool train = is_one_of(part, {"train", "training"});
  const bool images = is_one_of(kind, {"images", "image"});
  if ((!train && !is_one_of(part, {"t10k", "test", "testing"})) ||
      (!images && !is_one_of(kind, {"labels", "label"}))) {
    return std::nullopt;
  }
  words.resize(end - 2);
  const Role role =
      train ? (images ? kTrainImages : kTrainLabels) : (images ? kTestImages : kTestLabels);
  return IdxName{fmt::format("{}", fmt::join(words, "-")), role};
}

std::string usual_name(const IdxName& name) {
  constexpr std::array kEndings = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                   "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  return name.set.empty() ? kEndings[name.role] : name.set + "-" + kEndings[name.role];
}

std::string first_ones(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + std::min(names.size(), kMost));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > kMost ? ", ..." : "");
}

// Sorted names of the entries; none if the folder cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// The files of a data set: the names of each role.
using Files = std::array<std::vector<std::string>, kRoles>;

// The preferred one: plain before packed, file before folder of the same name.
std::string only_one(std::vector<std::string> names, const std::string& folder) {
  const auto is_folder = [&](const std::string& name) {
    std::error_code code;
    return fs::is_directory(fs::path(folder) / name, code);
  };
  if (!std::ranges::all_of(names, is_folder)) std::erase_if(names, is_folder);
  for (const std::string& plain : std::vector<std::string>(names)) {
    std::erase(names, plain + ".gz");
  }
  if (names.size() == 1) return names[0];
  throw InvalidArgument(fmt::format("{} are there for the same thing", fmt::join(names, " and ")),
                        folder, "leave one of them in the folder");
}

// The path of the file of a role; `names`: all that the folder has.
std::string path_of(const IdxName& wanted, const Files& files, const std::string& folder,
                    const std::vector<std::string>& names) {
  if (!files[wanted.role].empty()) {
    return (fs::path(folder) / only_one(files[wanted.role], folder)).string();
  }
  const std::string usual = usual_name(wanted);
  throw InvalidArgument(fmt::format("neither {} nor {}.gz is in the folder{}{}", usual, usual,
                                    names.empty() ? "" : ", which has ", first_ones(names)),
                        folder,
                        "set data.path to a folder with the four IDX files; on Debian the "
                        "package dataset-fashion-mnist has them");
}

InvalidArgument several_sets(const std::map<std::string, Files>& sets, const std::string& folder) {
  std::vector<std::string> files;  // one for each set
  for (const auto& [set, own] : sets) {
    for (const auto& names : own) {
      if (names.empty()) continue;
      files.push_back(names[0]);
      break;
    }
  }
  return InvalidArgument(
      fmt::format("the folder has the files of {} data sets: {}", sets.size(), first_ones(files)),
      folder, "put the files of one of them into a folder of its own");
}

void count_unread(const std::string& folder, const std::vector<std::string>& names,
                  IdxFolder& found) {
  Unread unread;
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    const std::string text = path.string();
    if (text == found.train.images || text == found.train.labels ||
        (found.test && (text == found.test->images || text == found.test->labels))) {
      continue;
    }
    std::error_code code;
    const bool is_folder = fs::is_directory(path, code);
    if (is_hidden(name)) {
      unread.add_hidden(is_folder);
    } else if (is_folder) {
      unread.add("folder", "folders");
    } else {
      unread.add_file(path);
    }
  }
  found.unread = unread.texts();
}

}  // namespace

IdxFolder list_idx(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  std::map<std::string, Files> sets;
  for (const std::string& name : names) {
    const auto parsed = is_hidden(name) ? std::nullopt : parse_name(name);
    if (parsed) sets[parsed->set][parsed->role].push_back(name);
  }
  if (sets.size() > 1) throw several_sets(sets, folder);
  const std::string set = sets.empty() ? "" : sets.begin()->first;
  Files& files = sets[set];
  const auto path = [&](Role role) { return path_of({set, role}, files, folder, names); };
  IdxFolder found{.train = {path(kTrainImages), path(kTrainLabels)}};
  if (!files[kTestImages].empty() || !files[kTestLabels].empty()) {
    found.test = {path(kTestImages), path(kTestLabels)};
  }
  count_unread(folder, names, found);
  return found;
}

}  // namespace hanse
