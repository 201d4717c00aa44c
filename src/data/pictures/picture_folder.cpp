#include "pictures/picture_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "folder_files.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

enum Part : std::size_t { kTrain, kTest, kValidation, kPartCount, kNoPart = kPartCount };

Part part_called(const std::string& name) {
  const std::string lower = lower_case(name);
  constexpr std::array<std::pair<std::string_view, Part>, 7> kNames = {
      {{"train", kTrain},
       {"training", kTrain},
       {"test", kTest},
       {"testing", kTest},
       {"val", kValidation},
       {"valid", kValidation},
       {"validation", kValidation}}};
  const auto found = std::ranges::find(kNames, lower, &std::pair<std::string_view, Part>::first);
  return found == kNames.end() ? kNoPart : found->second;
}

// A file that cannot be opened counts as a picture, for its reader to refuse.
bool is_picture(const fs::directory_entry& entry) {
  const std::string ending = lower_case(entry.path().extension().string());
  return (ending == ".png" || ending == ".jpg" || ending == ".jpeg") &&
         (entry.is_regular_file() || !entry.exists());
}

// A folder's own entries, sorted by bytes: the names of folders, the paths of pictures.
struct Entries {
  std::vector<std::string> folders, pictures;
};

Entries entries_of(const std::string& folder, Unread& unread) {
  Entries found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    const bool is_folder = entry.is_directory();
    if (is_hidden(name)) {
      unread.add_hidden(is_folder);
    } else if (is_folder) {
      found.folders.push_back(std::move(name));
    } else if (is_picture(entry)) {
      found.pictures.push_back(entry.path().string());
    } else {
      unread.add_file(entry.path());
    }
  }
  std::ranges::sort(found.folders);
  std::ranges::sort(found.pictures);
  return found;
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  return std::ranges::mismatch(inner, outer).in2 == outer.end();
}

// Appends the pictures in a folder and below it. `above`: the folders that led here.
void collect(const std::string& folder, std::vector<fs::path> above, Unread& unread,
             std::vector<std::string>& paths) {
  above.push_back(fs::canonical(folder));
  Entries found = entries_of(folder, unread);
  std::ranges::move(found.pictures, std::back_inserter(paths));
  for (const std::string& name : found.folders) {
    const std::string inner = folder + "/" + name;
    const fs::path real = fs::canonical(inner);
    if (std::ranges::any_of(above, [&](const fs::path& one) { return lies_in(one, real); })) {
      unread.add("link to a folder above it", "links to folders above them");
    } else {
      collect(inner, above, unread, paths);
    }
  }
}

std::vector<std::string> pictures_in(const std::string& folder, Unread& unread) {
  std::vector<std::string> paths;
  collect(folder, {}, unread, paths);
  std::ranges::sort(paths);
  return paths;
}

// ", but 12 .bmp files": the other files of a folder without the wanted ones.
std::string other_than(const Unread& found) {
  const auto texts = found.texts();
  return texts.empty() ? "; it is empty" : fmt::format(", but {}", fmt::join(texts, ", "));
}

std::vector<std::string> pictures_of_class(const std::string& folder, Unread& unread) {
  std::vector<std::string> paths = pictures_in(folder, unread);
  if (!paths.empty()) return paths;
  Unread own;
  pictures_in(folder, own);
  throw InvalidArgument(
      "the folder of a class has no picture (.png, .jpg, .jpeg)" + other_than(own), folder,
      "take the folder away, or put its pictures there as PNG or JPEG");
}

constexpr const char *kLoose = "picture outside of the folders of classes",
                     *kLooseMany = "pictures outside of the folders of classes";

// The folders of the classes in a folder.
std::vector<std::string> classes_in(const std::string& folder, const Entries& entries,
                                    Unread& unread) {
  unread.add(kLoose, kLooseMany, std::ssize(entries.pictures));
  if (!entries.folders.empty()) return entries.folders;
  Unread own;
  own.add("picture", "pictures", std::ssize(entries_of(folder, own).pictures));
  throw InvalidArgument("the folder has no folder of a class" + other_than(own), folder,
                        "pictures lie in FOLDER/CLASS, or in FOLDER/train/CLASS");
}

// Appends the pictures of all classes of a part of the data.
void add_part(const std::string& folder, const std::vector<std::string>& names, Unread& unread,
              PictureFolder& result) {
  for (const std::string& name : names) {
    const auto found = std::ranges::lower_bound(result.classes, name);
    if (found == result.classes.end() || *found != name) {
      throw InvalidArgument(fmt::format("class {} has test pictures alone", name), folder,
                            "the folders of the training pictures name the classes; sort the test "
                            "pictures into the same ones, or take them away");
    }
    const auto label = static_cast<int32_t>(found - result.classes.begin());
    for (std::string& path : pictures_of_class(folder + "/" + name, unread)) {
      result.files.push_back({std::move(path), label});
    }
  }
}

// The name of the folder of each part; empty: there is none.
using PartNames = std::array<std::string, kPartCount>;

PartNames parts_among(const std::vector<std::string>& folders, const std::string& where) {
  PartNames names;
  for (const std::string& name : folders) {
    const Part part = part_called(name);
    if (part == kNoPart) continue;
    if (!names[part].empty()) {
      throw InvalidArgument(
          fmt::format("the folders {} and {} are both for the same part of the data", names[part],
                      name),
          where, "take one of them away, or put their pictures together");
    }
    names[part] = name;
  }
  return names;
}

// A folder without training pictures must have classes as folders; none may have the name of a part
// and hold parts, or all classes.
void require_classes(const std::string& folder, const std::vector<std::string>& names,
                     const PartNames& parts) {
  const std::string& part = parts[kTest].empty() ? parts[kValidation] : parts[kTest];
  if (!part.empty()) {
    const auto other = std::ranges::find(names, kNoPart, part_called);
    if (other == names.end()) {
      throw InvalidArgument(fmt::format("there is a folder {}, but none for training", part),
                            folder, "put the training pictures into a folder train beside it");
    }
    throw InvalidArgument(
        fmt::format("the folders {} and {} lie side by side: is {} a class, or does it hold test "
                    "pictures?",
                    part, *other, part),
        folder,
        "put the folders of the classes into a folder train: those beside it are no classes");
  }
  for (const std::string& name : names) {
    Unread ignored;
    const Entries inner = entries_of(folder + "/" + name, ignored);
    const auto train = std::ranges::find(inner.folders, kTrain, part_called);
    const bool has_parts = train != inner.folders.end();
    if (!has_parts && (names.size() > 1 || inner.folders.empty())) continue;
    throw InvalidArgument(
        has_parts ? fmt::format("the folder {} has a folder {}: is it a class?", name, *train)
                  : fmt::format("the folder {} is the only one, and has folders itself: is it a "
                                "class?",
                                name),
        folder, fmt::format("data.path = {}/{} reads the folders in it", folder, name));
  }
}

// Folders that hold folders of the same names, and no picture beside them, are domains or clients,
// and the classes lie in them.
void require_own_names(const std::string& folder, const std::vector<std::string>& names) {
  std::map<std::string, int64_t> holders;
  int64_t most = 0;
  for (const std::string& name : names) {
    Unread ignored;
    const Entries inner = entries_of(folder + "/" + name, ignored);
    if (!inner.pictures.empty() || inner.folders.size() < 2) return;
    for (const std::string& own : inner.folders) most = std::max(most, ++holders[own]);
  }
  const auto shared =
      std::ranges::count_if(holders, [](const auto& entry) { return entry.second > 1; });
  if (shared < 2 || 2 * shared < std::ssize(holders)) return;
  const auto example =
      std::ranges::find(holders, most, &std::pair<const std::string, int64_t>::second);
  throw InvalidArgument(
      fmt::format(
          "the folders {} and {} hold folders of the same names ({}): are they the classes?",
          names[0], names[1], example->first),
      folder,
      fmt::format(
          "data.path = {}/{} reads the classes in one of them; hanse.write_federation in "
          "Python makes a client of each; if they are, put the pictures of each in one folder",
          folder, names[0]));
}

// A folder with training pictures must have no class beside its parts.
void require_no_class(const std::string& folder, const std::vector<std::string>& names,
                      const std::string& train, Unread& unread) {
  for (const std::string& name : names) {
    if (part_called(name) != kNoPart || pictures_in(folder + "/" + name, unread).empty()) continue;
    throw InvalidArgument(
        fmt::format("the folders {} and {} lie side by side, both with pictures: is {} a class, or "
                    "does it hold the classes?",
                    train, name, train),
        folder,
        fmt::format("put the folders of all classes into {}, or take {} away", train, name));
  }
}

// Do test pictures lie in folders of classes? A single folder of another name tells nothing.
bool tells_classes(const std::vector<std::string>& folders,
                   const std::vector<std::string>& classes) {
  if (folders.size() != 1) return !folders.empty();
  return std::ranges::binary_search(classes, folders[0]);
}

// Adds the test pictures if their classes are told. Validation pictures are not read.
void add_test_part(const std::string& folder, const PartNames& parts, Unread& unread,
                   PictureFolder& result) {
  for (const Part part : {kTest, kValidation}) {
    const std::string& name = parts[part];
    if (name.empty()) continue;
    const std::string path = folder + "/" + name;
    Unread own;
    if (part == kTest && tells_classes(entries_of(path, own).folders, result.classes)) {
      result.test_begin = std::ssize(result.files);
      add_part(path, classes_in(path, entries_of(path, unread), unread), unread, result);
    } else {
      unread.add("picture in " + name, "pictures in " + name, std::ssize(pictures_in(path, own)));
    }
  }
}

void list_all(const std::string& folder, Unread& unread, PictureFolder& result) {
  const Entries top = entries_of(folder, unread);
  const PartNames parts = parts_among(top.folders, folder);
  if (parts[kTrain].empty()) {
    result.classes = classes_in(folder, top, unread);
    require_classes(folder, result.classes, parts);
    require_own_names(folder, result.classes);
    add_part(folder, result.classes, unread, result);
    return;
  }
  unread.add(kLoose, kLooseMany, std::ssize(top.pictures));
  require_no_class(folder, top.folders, parts[kTrain], unread);
  const std::string train = folder + "/" + parts[kTrain];
  result.classes = classes_in(train, entries_of(train, unread), unread);
  require_own_names(train, result.classes);
  add_part(train, result.classes, unread, result);
  add_test_part(folder, parts, unread, result);
}

}  // namespace

PictureFolder list_pictures(const std::string& folder) {
  PictureFolder result;
  Unread unread;
  try {
    list_all(folder, unread, result);
  } catch (const fs::filesystem_error& error) {
    throw InvalidArgument("cannot read the folder: " + error.code().message(),
                          error.path1().empty() ? folder : error.path1().string(),
                          "check data.path");
  }
  result.unread = unread.texts();
  return result;
}

}  // namespace hanse
