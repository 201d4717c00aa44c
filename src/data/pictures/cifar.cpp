// The binary files of CIFAR-10 and CIFAR-100; data/README.md has the grammar.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"

namespace hanse {

namespace {

constexpr int64_t kPixelBytes = 3 * 32 * 32;

// The start of a record, and where its label is.
struct CifarLayout {
  std::vector<std::string> train;
  std::string test;
  int64_t label_bytes;  // of a record, in front of the pixels
  int64_t label;        // the byte of them that counts
  int64_t classes;
  std::string names;  // the file of the classes' names
};

std::string in_folder(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

bool has_file(const std::string& folder, const std::string& name) {
  return std::filesystem::exists(in_folder(folder, name));
}

// The reason why the files are missing, as far as the folder shows it.
InvalidArgument missing(const std::string& name, const std::string& folder) {
  const auto absent = [&](const std::string& more, const std::string& hint) {
    return InvalidArgument(name + " is not in the folder" + more, folder, hint);
  };
  for (const char* inner : {"cifar-10-batches-bin", "cifar-100-binary"}) {
    if (has_file(folder, inner)) return absent("", "data.path = " + in_folder(folder, inner));
  }
  if (std::filesystem::is_directory(in_folder(folder, "train"))) {
    return absent(", but a folder train", "data.kind = images reads pictures in train/CLASS");
  }
  for (const char* python : {"data_batch_1", "cifar-10-batches-py", "cifar-100-python", "train"}) {
    if (!has_file(folder, python)) continue;
    return absent(fmt::format(", but {}: that is the version for Python", python),
                  "fetch the binary version: cifar-10-binary.tar.gz or cifar-100-binary.tar.gz");
  }
  return absent("",
                "CIFAR-10: data_batch_1.bin to data_batch_5.bin and test_batch.bin; CIFAR-100: "
                "train.bin and test.bin");
}

CifarLayout layout_of(const std::string& folder, const std::string& label_column) {
  if (label_column != "label" && label_column != "coarse_label") {
    throw InvalidArgument("CIFAR has no labels of that name: " + label_column, "data.label-column",
                          "label, or coarse_label (CIFAR-100)");
  }
  const bool coarse = label_column == "coarse_label";
  if (has_file(folder, "train.bin")) {
    if (has_file(folder, "data_batch_1.bin")) {
      throw InvalidArgument("the folder has the files of CIFAR-10 and of CIFAR-100", folder,
                            "put those of one of them into a folder of its own");
    }
    return {{"train.bin"},
            "test.bin",
            2,
            coarse ? 0 : 1,
            coarse ? 20 : 100,
            coarse ? "coarse_label_names.txt" : "fine_label_names.txt"};
  }
  if (coarse && !has_file(folder, "data_batch_1.bin")) throw missing("train.bin", folder);
  if (coarse) {
    throw InvalidArgument("CIFAR-10 has no coarse labels", "data.label-column", "use label");
  }
  std::vector<std::string> train;
  for (int part = 1; part <= 5; ++part) train.push_back(fmt::format("data_batch_{}.bin", part));
  return {train, "test_batch.bin", 1, 0, 10, "batches.meta.txt"};
}

// Appends the images of a file.
void append_records(const std::string& path, const CifarLayout& layout, Dataset& dataset) {
  InputFile file(path);
  const int64_t record = layout.label_bytes + kPixelBytes;
  if (!file.is_plain() || file.most_bytes() % record != 0 || file.most_bytes() == 0) {
    throw InvalidArgument(fmt::format("the file is {} bytes long, no multiple of a record's {}",
                                      file.most_bytes(), record),
                          path, "the file is incomplete, or of another kind; fetch it again");
  }
  const int64_t count = file.most_bytes() / record;
  require_memory(count * kPixelBytes, "the images take", path, "");
  const std::size_t begin = dataset.features.size();
  dataset.features.resize(begin + to_index(count * kPixelBytes));
  uint8_t labels[2] = {};
  for (int64_t i = 0; i < count; ++i) {
    const std::string field = fmt::format("record {}", i);
    std::byte* pixels = dataset.features.data() + begin + to_index(i * kPixelBytes);
    if (file.read(field, labels, layout.label_bytes) < layout.label_bytes ||
        file.read(field, pixels, kPixelBytes) < kPixelBytes) {
      throw InvalidArgument("the file has become shorter", path, "fetch it again");
    }
    if (labels[layout.label] >= layout.classes) {
      throw InvalidArgument(
          fmt::format("label {} of {} classes", labels[layout.label], layout.classes),
          fmt::format("{}, {}", path, field), "the file is of another data set; fetch it again");
    }
    dataset.labels.push_back(labels[layout.label]);
  }
}

// A line a class; empty if the file is missing or has another number of lines.
std::vector<std::string> read_class_names(const std::string& path, int64_t classes) {
  std::vector<std::string> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && std::ssize(names) <= classes;) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (std::ssize(names) != classes) names.clear();
  return names;
}

}  // namespace

Dataset read_cifar(const std::string& folder, const std::string& label_column) {
  const CifarLayout layout = layout_of(folder, label_column);
  Dataset dataset{.shape = {3, 32, 32}, .storage = Storage::kByte, .classes = layout.classes};
  for (const std::string& name : layout.train) {
    if (!has_file(folder, name)) throw missing(name, folder);
    append_records(in_folder(folder, name), layout, dataset);
  }
  if (has_file(folder, layout.test)) {
    dataset.test_begin = dataset.size();
    append_records(in_folder(folder, layout.test), layout, dataset);
  }
  dataset.class_names = read_class_names(in_folder(folder, layout.names), layout.classes);
  return dataset;
}

}  // namespace hanse
