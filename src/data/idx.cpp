// The IDX files of MNIST and its relatives; data/README.md has the grammar.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/dataset.hpp"
#include "idx_folder.hpp"
#include "input_file.hpp"

namespace hanse {

namespace {

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
