// The IDX files of MNIST and its relatives; data/README.md has the grammar.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "folder_files.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

// The paths of the files of a part of the data.
struct IdxPart {
  std::string images, labels;
};

struct IdxFolder {
  IdxPart train;
  std::optional<IdxPart> test;
  std::vector<std::string> unread;  // as in Dataset
};

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

constexpr uint32_t kImagesMagic = 0x803;  // unsigned bytes, 3 dimensions
constexpr uint32_t kLabelsMagic = 0x801;  // unsigned bytes, 1 dimension
constexpr const char* kIncomplete = "the file is incomplete or corrupt; fetch it again";

std::string place(const InputFile& file, const std::string& field) {
  return fmt::format("{}, field '{}'", file.path(), field);
}

uint32_t read_word(InputFile& file, const std::string& field) {
  uint8_t bytes[4] = {};
  const int64_t got = file.read(field, bytes, 4);
  if (got < 4) {
    throw InvalidArgument(fmt::format("truncated file: {} of 4 bytes", got), place(file, field),
                          kIncomplete);
  }
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void check_magic(InputFile& file, uint32_t expected) {
  const uint32_t magic = read_word(file, "magic");
  if (magic == expected) return;
  const bool swapped = magic == kImagesMagic || magic == kLabelsMagic;
  const bool is_idx = magic >> 16 == 0 && magic >> 8 >= 0x8 && magic >> 8 <= 0xE;
  throw InvalidArgument(
      fmt::format("magic number is 0x{:08x}, expected 0x{:08x}", magic, expected),
      place(file, "magic"),
      swapped  ? "images and labels have changed places"
      : is_idx ? "images are unsigned bytes in 3 dimensions, labels unsigned bytes in 1"
               : "the file is not in the IDX format");
}

int64_t read_extent(InputFile& file, const std::string& field) {
  const uint32_t extent = read_word(file, field);
  if (extent == 0 || extent > INT32_MAX) {
    throw InvalidArgument(fmt::format("{} is {}, expected 1 to {}", field, extent, INT32_MAX),
                          place(file, field), kIncomplete);
  }
  return extent;
}

// Appends the last field of the file, which must end there.
void append_bytes(InputFile& file, const std::string& field, int64_t count, int64_t bytes_each,
                  std::pmr::vector<std::byte>& out) {
  const auto truncated = [&](const std::string& found) {
    return InvalidArgument(
        fmt::format("truncated file: the header promises {} x {} bytes, found {}", count,
                    bytes_each, found),
        place(file, field), kIncomplete);
  };
  if (bytes_each > file.most_bytes() / count) throw truncated("far fewer");
  const int64_t bytes = count * bytes_each;
  require_memory(bytes, "what the header promises takes", place(file, field), kIncomplete);
  const std::size_t start = out.size();
  out.resize(start + static_cast<std::size_t>(bytes));
  const int64_t got = file.read(field, out.data() + start, bytes);
  if (got < bytes) throw truncated(fmt::format("{}", got));
  std::byte extra;
  if (file.read(field, &extra, 1) != 0) {
    throw InvalidArgument(
        fmt::format("bytes follow the {} x {} bytes the header promises", count, bytes_each),
        place(file, field), "the count in the header is wrong; fetch it again");
  }
}

// Appends the images of a file and returns their number. The first file sets the shape.
int64_t append_images(const std::string& path, Dataset& dataset) {
  InputFile file(path);
  check_magic(file, kImagesMagic);
  const int64_t count = read_extent(file, "images");
  const int64_t rows = read_extent(file, "rows");
  const int64_t columns = read_extent(file, "columns");
  const std::vector<int64_t> shape = {1, rows, columns};
  if (!dataset.shape.empty() && dataset.shape != shape) {
    throw InvalidArgument(fmt::format("images are {} x {}, those of the training file {} x {}",
                                      rows, columns, dataset.shape[1], dataset.shape[2]),
                          place(file, "rows, columns"), "the files are of different data sets");
  }
  dataset.shape = shape;
  append_bytes(file, "pixels", count, rows * columns, dataset.features);
  return count;
}

int64_t append_labels(const std::string& path, Dataset& dataset) {
  InputFile file(path);
  check_magic(file, kLabelsMagic);
  const int64_t count = read_extent(file, "labels");
  std::pmr::vector<std::byte> bytes;
  append_bytes(file, "labels", count, 1, bytes);
  for (const std::byte label : bytes) dataset.labels.push_back(static_cast<int32_t>(label));
  return count;
}

// Appends images and labels of one part.
void append_part(const IdxPart& part, Dataset& dataset) {
  const int64_t n_images = append_images(part.images, dataset);
  const int64_t n_labels = append_labels(part.labels, dataset);
  if (n_images != n_labels) {
    throw InvalidArgument(fmt::format("{} labels for {} images", n_labels, n_images),
                          fmt::format("{}, field 'labels'; {}", part.labels, part.images),
                          "the files are of different data sets");
  }
}

// Goes by the names that data/README.md gives; opens no file. Throws InvalidArgument: a file is
// missing, or there are files of several data sets.
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

}  // namespace

Dataset read_idx_folder(const std::string& folder) {
  IdxFolder found = list_idx(folder);
  Dataset dataset{.storage = Storage::kByte, .unread = std::move(found.unread)};
  append_part(found.train, dataset);
  if (found.test) {
    dataset.test_begin = dataset.size();
    append_part(*found.test, dataset);
  }
  dataset.classes = 1 + *std::max_element(dataset.labels.begin(), dataset.labels.end());
  return dataset;
}

}  // namespace hanse
