// Folders of pictures, a folder a class; data/README.md has the grammar.
#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/dataset.hpp"
#include "pictures/picture.hpp"
#include "pictures/picture_folder.hpp"
#include "rounded_numbers.hpp"

namespace hanse {

namespace {

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
  PictureFolder found = list_pictures(folder);
  Dataset dataset{.shape = shape,
                  .storage = Storage::kByte,
                  .classes = std::ssize(found.classes),
                  .class_names = without_numbers(std::move(found.classes)),
                  .test_begin = found.test_begin,
                  .unread = std::move(found.unread)};
  decode(found.files, !shape.empty(), dataset);
  return dataset;
}

}  // namespace hanse
