// Folders of pictures, a folder a class; data/README.md has the grammar.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "channels.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/dataset.hpp"
#include "picture.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

struct PictureFile {
  std::string path;
  int32_t label;
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

InvalidArgument unreadable(const fs::filesystem_error& error, const std::string& folder) {
  return InvalidArgument("cannot read the folder: " + error.code().message(), folder,
                         "check data.path");
}

// The names of the folders in a folder, sorted by their bytes.
std::vector<std::string> class_folders(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  if (names.empty()) {
    throw InvalidArgument("the folder has no folder of a class", folder,
                          "pictures lie in FOLDER/CLASS, or in FOLDER/train/CLASS");
  }
  return names;
}

// Those in the folder and in what it holds, sorted by the bytes of their paths.
std::vector<std::string> pictures_of(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (is_picture(entry.path()) && entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  if (paths.empty()) {
    throw InvalidArgument("the folder of a class has no picture (.png, .jpg, .jpeg)", folder,
                          "take the folder away, or put its pictures there");
  }
  return paths;
}

// Appends the pictures of all classes of a part of the data.
void list_part(const std::string& folder, const std::vector<std::string>& classes,
               std::vector<PictureFile>& files) {
  for (const std::string& name : class_folders(folder)) {
    const auto found = std::ranges::lower_bound(classes, name);
    if (found == classes.end() || *found != name) {
      throw InvalidArgument(fmt::format("class {} has test pictures alone", name), folder,
                            "the folders in train/ name the classes");
    }
    const auto label = static_cast<int32_t>(found - classes.begin());
    for (std::string& path : pictures_of(folder + "/" + name)) {
      files.push_back({std::move(path), label});
    }
  }
}

std::string size_text(int64_t channels, int64_t height, int64_t width) {
  return fmt::format("{} x {} pixels in {}", height, width, channels == 1 ? "grey" : "colour");
}

void require_alike(const Picture& picture, const std::vector<int64_t>& shape,
                   const std::string& path, const std::string& first) {
  if (shape == std::vector<int64_t>{picture.channels, picture.height, picture.width}) return;
  throw InvalidArgument(
      fmt::format("the picture has {}, {} has {}",
                  size_text(picture.channels, picture.height, picture.width), first,
                  size_text(shape[0], shape[1], shape[2])),
      path,
      fmt::format("data.shape = 3,{},{} makes all of one shape, and so does 1,{},{} in grey",
                  shape[1], shape[2], shape[1], shape[2]));
}

void decode(const std::vector<PictureFile>& files, bool resizes, Dataset& dataset) {
  PictureReader reader;
  for (const auto& [path, label] : files) {
    const Picture* picture = &reader.read(path);
    Picture changed;
    if (dataset.shape.empty()) {
      dataset.shape = {picture->channels, picture->height, picture->width};
    }
    if (resizes) {
      changed = *picture;
      set_channels(changed, dataset.shape[0]);
      resize(changed, dataset.shape[1], dataset.shape[2]);
      picture = &changed;
    }
    require_alike(*picture, dataset.shape, path, files.front().path);
    if (dataset.features.empty()) {
      const int64_t bytes = std::ssize(files) * dataset.sample_bytes();
      require_memory(bytes, "the pictures take", path, "ask for smaller ones by data.shape");
      dataset.features.resize(to_index(bytes));
    }
    std::byte* out = dataset.features.data() + dataset.size() * dataset.sample_bytes();
    put_channels_first(picture->pixels.data(), picture->channels, picture->height * picture->width,
                       reinterpret_cast<uint8_t*>(out));
    dataset.labels.push_back(label);
  }
}

}  // namespace

Dataset read_images(const std::string& folder, const std::vector<int64_t>& shape) {
  Dataset dataset{.shape = shape, .storage = Storage::kByte};
  std::vector<PictureFile> files;
  try {
    const bool has_parts = fs::is_directory(folder + "/train");
    const std::string train = has_parts ? folder + "/train" : folder;
    dataset.class_names = class_folders(train);
    list_part(train, dataset.class_names, files);
    if (has_parts && fs::is_directory(folder + "/test")) {
      dataset.test_begin = std::ssize(files);
      list_part(folder + "/test", dataset.class_names, files);
    }
  } catch (const fs::filesystem_error& error) {
    throw unreadable(error, folder);
  }
  dataset.classes = std::ssize(dataset.class_names);
  decode(files, !shape.empty(), dataset);
  dataset.class_names = without_numbers(std::move(dataset.class_names));
  return dataset;
}

}  // namespace hanse
