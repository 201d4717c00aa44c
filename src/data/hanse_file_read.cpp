#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/names.hpp"
#include "hanse/data/seal.hpp"
#include "hanse_file_format.hpp"
#include "sources.hpp"

namespace hanse {

namespace {

// A smaller file is read whole when it is opened: within some milliseconds.
constexpr int64_t kReadAtOnce = 16 << 20;
constexpr std::size_t kShownNames = 8;
constexpr const char* kHint = "write it with hanse convert; data/README.md has the format";

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& name) {
  throw InvalidArgument(what, fmt::format("{}, {}", path, name), kHint);
}

// Everything but the samples and labels.
struct Header {
  ClientLayout layout;
  SamplePlaces places;
  int64_t digest = -1;  // its place; -1: there is none
};

void require_attribute(const hdf5::File& file, const std::string& name) {
  if (!file.has_attribute(name)) refuse("there is no such attribute", file.path(), name);
}

int64_t read_number(const hdf5::File& file, const std::string& name) {
  require_attribute(file, name);
  return file.read_attribute(name);
}

Storage read_encoding(const hdf5::File& file) {
  require_attribute(file, "encoding");
  const auto name = file.read_text_attribute("encoding");
  if (!name) refuse("the attribute is no fixed-length text", file.path(), "encoding");
  for (const auto& [storage, known] : kEncodings) {
    if (*name == known) return storage;
  }
  refuse(fmt::format("unknown encoding '{}'", *name), file.path(), "encoding");
}

hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name) {
  if (!file.contains(name)) refuse("there is no such dataset", file.path(), name);
  return file.dataset(name);
}

// Checks the type and the place of a dataset; returns its extents and where it starts.
std::vector<int64_t> locate(const hdf5::File& file, const std::string& name, const hdf5::Type& type,
                            int64_t& start) {
  const hdf5::Dataset dataset = open_dataset(file, name);
  if (!dataset.is_stored_as(type)) {
    refuse("the dataset has another type than the format says", file.path(), name);
  }
  start = dataset.offset();
  if (start < 0 || start % type.bytes != 0) {
    refuse("the dataset is chunked, compressed or not aligned", file.path(), name);
  }
  return dataset.shape();
}

// Where its elements stand one after another.
int64_t place_of(const hdf5::Dataset& dataset, const std::string& path) {
  const int64_t start = dataset.offset();
  if (start < 0) refuse("the dataset is chunked or compressed", path, dataset.name());
  return start;
}

// The bytes as they stand: the library reads over the ends of what a damaged file describes.
void read_bytes(const std::string& path, int64_t start, void* out, int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file.seekg(start) || !file.read(static_cast<char*>(out), bytes)) {
    throw IoError("cannot read the file: " + errno_text(), path);
  }
}

std::vector<int64_t> read_list(const hdf5::File& file, const std::string& name) {
  const hdf5::Dataset dataset = open_dataset(file, name);
  if (dataset.shape().size() != 1) {
    refuse("the dataset has not one extent", file.path(), name);
  }
  if (!dataset.is_stored_as(hdf5::kTypeOf<int64_t>)) {
    refuse("the dataset has another type than the format says", file.path(), name);
  }
  const int64_t start = place_of(dataset, file.path());
  std::vector<int64_t> values(static_cast<std::size_t>(dataset.size()));
  read_bytes(file.path(), start, values.data(), dataset.size() * 8);
  return values;
}

// None, or `count` of them: of fixed length, as hanse convert writes them, or of any.
std::vector<std::string> read_names(const hdf5::File& file, const std::string& name,
                                    int64_t count) {
  if (!file.contains(name)) return {};
  const hdf5::Dataset dataset = file.dataset(name);
  if (dataset.type().kind != hdf5::Kind::kText || dataset.shape() != std::vector<int64_t>{count}) {
    refuse(fmt::format("names are {} texts, these are not", count), file.path(), name);
  }
  std::vector<std::string> names;
  if (const int64_t bytes = dataset.type().bytes; bytes > 0) {
    const int64_t start = place_of(dataset, file.path());
    std::string all(static_cast<std::size_t>(count * bytes), '\0');
    read_bytes(file.path(), start, all.data(), std::ssize(all));
    for (int64_t i = 0; i < count; ++i) {
      const std::string text =
          all.substr(static_cast<std::size_t>(i * bytes), static_cast<std::size_t>(bytes));
      names.push_back(text.substr(0, text.find('\0')));
    }
  } else {
    names = dataset.texts();
  }
  if (std::ranges::count(names, std::string()) > 0) refuse("a name is empty", file.path(), name);
  return names;
}

std::vector<ClientRanges> read_clients(const hdf5::File& file, int64_t samples) {
  const auto offsets = read_list(file, "offsets");
  const auto train_end = read_list(file, "train_end");
  if (offsets.size() != train_end.size() + 1 || train_end.empty() || offsets.front() != 0 ||
      offsets.back() != samples) {
    refuse(fmt::format("{} offsets and {} train_end do not share {} samples", offsets.size(),
                       train_end.size(), samples),
           file.path(), "offsets");
  }
  const auto validation = file.contains("validation") ? read_list(file, "validation")
                                                      : std::vector<int64_t>(train_end.size());
  if (validation.size() != train_end.size()) {
    refuse("it has not one number a client", file.path(), "validation");
  }
  std::vector<ClientRanges> clients;
  for (std::size_t c = 0; c < train_end.size(); ++c) {
    clients.push_back({offsets[c], train_end[c], offsets[c + 1], validation[c]});
    const auto& own = clients.back();
    if (own.begin >= own.end || own.train_end < own.begin || own.train_end > own.end ||
        own.validation < 0 || own.validation > own.end - own.train_end) {
      refuse(fmt::format("client {} has samples {} to {}, training until {}, {} for validation", c,
                         own.begin, own.end, own.train_end, own.validation),
             file.path(), "offsets");
    }
  }
  return clients;
}

void check_held_out(const ClientLayout& layout, const std::string& path) {
  const int64_t clients = std::ssize(layout.clients);
  if (layout.held_out < 0 || layout.held_out >= clients) {
    refuse(fmt::format("{} of {} clients are held out", layout.held_out, clients), path,
           "held_out");
  }
  for (int64_t c = 0; c < clients - layout.held_out; ++c) {
    const auto& own = layout.clients[static_cast<std::size_t>(c)];
    if (own.begin == own.train_end) {
      const auto name = layout.client_names.empty() ? std::string() : layout.client_names[c];
      refuse(label_of("client", c, name) + " has no training sample", path, "train_end");
    }
  }
}

void read_samples_place(const hdf5::File& file, Header& header) {
  ClientLayout& layout = header.layout;
  SamplePlaces& places = header.places;
  layout.shape = locate(file, "features", feature_type(layout.storage), places.features);
  if (layout.shape.size() < 2) refuse("a sample has no extent", file.path(), "features");
  const int64_t samples = layout.shape.front();
  layout.shape.erase(layout.shape.begin());
  const auto counted = layout.classes > 0
                           ? locate(file, "labels", hdf5::kTypeOf<int32_t>, places.labels)
                           : locate(file, "targets", hdf5::kTypeOf<float>, places.targets);
  if (counted != std::vector<int64_t>{samples}) {
    refuse(fmt::format("there are {} samples and {} labels or targets", samples,
                       counted.empty() ? 0 : counted[0]),
           file.path(), "features");
  }
  if (file.has_attribute("common_test")) layout.common_test = read_number(file, "common_test");
  if (layout.common_test < 0 || layout.common_test >= samples) {
    refuse(fmt::format("{} of {} samples are the common test set", layout.common_test, samples),
           file.path(), "common_test");
  }
  layout.clients = read_clients(file, samples - layout.common_test);
  places.bytes = static_cast<int64_t>(std::filesystem::file_size(file.path()));
}

Header read_frame(const std::string& path) {
  const hdf5::Section section;
  const auto file = hdf5::File::open_to_read(path);
  if (const int64_t version = read_number(file, "version"); version != kHanseFileVersion) {
    refuse(fmt::format("the format's version is {}, this program reads {}", version,
                       kHanseFileVersion),
           path, "version");
  }
  Header header;
  ClientLayout& layout = header.layout;
  layout.classes = read_number(file, "classes");
  if (layout.classes < 0 || layout.classes > kMostClasses) {
    refuse(fmt::format("there are {} classes", layout.classes), path, "classes");
  }
  layout.held_out = read_number(file, "held_out");
  layout.storage = read_encoding(file);
  read_samples_place(file, header);
  if (file.contains("digest")) locate(file, "digest", hdf5::kTypeOf<int64_t>, header.digest);
  layout.client_names = read_names(file, "client_names", std::ssize(layout.clients));
  layout.class_names = read_names(file, "class_names", layout.classes);
  check_held_out(layout, path);
  return header;
}

Header read_header(const std::string& path) {
  if (const auto damage = damage_if_sealed(path, kDataSeal)) {
    throw InvalidArgument(*damage, path, "the file is incomplete or corrupt; make it again");
  }
  try {
    return read_frame(path);
  } catch (const IoError& error) {
    throw InvalidArgument(error.what(), "",
                          "the file is incomplete or no HDF5; " + std::string(kHint));
  }
}

// A file that is mapped.
class Content {
 public:
  Content(const Header& header, const std::string& path)
      : header_(header),
        path_(path),
        memory_(map_file(path, header.places.bytes, Access::kRead)),
        arrays_(arrays_at(header.places, memory_.get())) {}

  void check_labels() const {
    if (!arrays_.labels) return;
    const std::span all(arrays_.labels, samples());
    const int64_t classes = header_.layout.classes;
    const auto bad =
        std::ranges::find_if(all, [&](int32_t label) { return label < 0 || label >= classes; });
    if (bad == all.end()) return;
    refuse(
        fmt::format("label {} of sample {} is outside [0, {})", *bad, bad - all.begin(), classes),
        path_, "labels");
  }

  // As the file has it.
  std::optional<uint64_t> stored_digest() const {
    if (header_.digest < 0) return std::nullopt;
    uint64_t digest = 0;
    std::memcpy(&digest, memory_.get() + header_.digest, sizeof digest);
    return digest;
  }

  const SampleArrays& arrays() const { return arrays_; }

  // Reads every sample. Returns the digest. Throws InvalidArgument: it is not the stored one, or a
  // number is not finite.
  uint64_t verify() const {
    const uint64_t digest = digest_of(header_.layout, arrays_);
    if (stored_digest().value_or(digest) != digest) {
      refuse(fmt::format("the content is damaged: its digest is {:016x}, it was {:016x}", digest,
                         *stored_digest()),
             path_, "digest");
    }
    const auto values = static_cast<std::size_t>(header_.layout.sample_values());
    if (header_.layout.storage == Storage::kFloat) {
      check_finite(reinterpret_cast<const float*>(arrays_.features), values, "features");
    }
    if (arrays_.targets) check_finite(arrays_.targets, 1, "targets");
    return digest;
  }

 private:
  std::size_t samples() const { return static_cast<std::size_t>(header_.layout.samples()); }

  void check_finite(const float* values, std::size_t width, const char* name) const {
    const std::span all(values, samples() * width);
    const auto bad = std::ranges::find_if_not(all, [](float x) { return std::isfinite(x); });
    if (bad == all.end()) return;
    refuse(fmt::format("a value of sample {} is not finite",
                       (bad - all.begin()) / static_cast<int64_t>(width)),
           path_, name);
  }

  const Header& header_;
  const std::string& path_;
  std::shared_ptr<std::byte> memory_;
  SampleArrays arrays_;
};

std::string names_text(const std::string& what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const auto shown = std::span(names).first(std::min(names.size(), kShownNames));
  return fmt::format("{}: {}{}\n", what, fmt::join(shown, ", "),
                     shown.size() < names.size() ? ", ..." : "");
}

// "samples: 100, 20 of them for tests", and 10 for validation.
std::string samples_text(const ClientLayout& layout) {
  int64_t tests = layout.common_test, validation = 0;
  for (const ClientRanges& own : layout.clients) {
    tests += own.end - own.test_begin();
    validation += own.validation;
  }
  return fmt::format("samples: {}, {} of them for tests{}\n", layout.samples(), tests,
                     validation > 0 ? fmt::format(", {} for validation", validation) : "");
}

std::string digest_text(const Content& content, bool verify) {
  const auto stored = content.stored_digest();
  if (verify) {
    return fmt::format("digest: {:016x}, {}\n", content.verify(),
                       stored ? "ok: it is that of the content"
                              : "computed: the file has none to compare it with");
  }
  return stored
             ? fmt::format("digest: {:016x}, not verified (--verify reads all samples)\n", *stored)
             : "digest: none\n";
}

// The clients of a file, as they stand there.
class CopiedSource final : public ClientSource {
 public:
  explicit CopiedSource(const std::string& path)
      : path_(path), header_(read_header(path_)), content_(header_, path_) {
    content_.check_labels();
    content_.verify();
    layout_ = header_.layout;
  }

  void write(const SampleArrays& out) override {
    std::vector<std::byte*> targets;
    out.for_each(layout_, [&](std::byte* array, int64_t) { targets.push_back(array); });
    auto target = targets.begin();
    content_.arrays().for_each(layout_, [&](const std::byte* array, int64_t width) {
      std::copy_n(array, layout_.samples() * width, *target++);
    });
  }

 private:
  std::string path_;
  Header header_;
  Content content_;
};

}  // namespace

std::unique_ptr<ClientSource> make_copied_source(const std::string& path) {
  return std::make_unique<CopiedSource>(path);
}

HanseFile open_hanse_file(const std::string& path) {
  const Header header = read_header(path);
  const Content content(header, path);
  content.check_labels();
  const auto stored = content.stored_digest();
  const bool reads_all = !stored || header.places.bytes <= kReadAtOnce;
  return {header.layout, header.places, reads_all ? content.verify() : *stored};
}

bool is_hanse_file(const hdf5::File& file) {
  return file.has_attribute("version") && file.has_attribute("encoding") &&
         file.has_attribute("classes");
}

std::string hanse_file_text(const std::string& path, bool verify) {
  const Header header = read_header(path);
  const Content content(header, path);
  content.check_labels();
  const ClientLayout& layout = header.layout;
  std::string text = fmt::format("clients: {}\n", std::ssize(layout.clients) - layout.held_out);
  if (layout.held_out > 0) {
    text += fmt::format("clients with test samples alone: {}\n", layout.held_out);
  }
  text += names_text("client names", layout.client_names);
  text += samples_text(layout);
  if (layout.common_test > 0) {
    text += fmt::format("test samples of no client: {}\n", layout.common_test);
  }
  const auto encoding =
      std::ranges::find(kEncodings, layout.storage, &std::pair<Storage, const char*>::first);
  text += fmt::format("shape of a sample: {}, {}\n", layout.shape, encoding->second);
  text += layout.classes > 0 ? fmt::format("classes: {}\n", layout.classes)
                             : "classes: none (regression)\n";
  return text + names_text("class names", layout.class_names) + digest_text(content, verify);
}

}  // namespace hanse
