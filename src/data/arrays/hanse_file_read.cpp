#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arrays/hanse_file_fields.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/names.hpp"
#include "hanse/data/seal.hpp"
#include "kinds.hpp"

namespace hanse {

namespace {

// Smaller files are read whole when they are opened, within some milliseconds.
constexpr int64_t kReadAtOnce = 16 << 20;
constexpr std::size_t kShownNames = 8;

// All but the samples and labels.
struct Header {
  ClientLayout layout;
  SamplePlaces places;
  int64_t digest = -1;  // its place; -1: none
};

std::vector<ClientRanges> read_clients(const hdf5::File& file, int64_t samples) {
  const auto offsets = read_list(file, "offsets");
  const auto train_end = read_list(file, "train_end");
  if (offsets.size() != train_end.size() + 1 || train_end.empty() || offsets.front() != 0 ||
      offsets.back() != samples) {
    refuse_file(fmt::format("{} offsets and {} train_end do not share {} samples", offsets.size(),
                            train_end.size(), samples),
                file.path(), "offsets");
  }
  const auto validation = file.contains("validation") ? read_list(file, "validation")
                                                      : std::vector<int64_t>(train_end.size());
  if (validation.size() != train_end.size()) {
    refuse_file("it has not one number a client", file.path(), "validation");
  }
  std::vector<ClientRanges> clients;
  for (std::size_t c = 0; c < train_end.size(); ++c) {
    clients.push_back({offsets[c], train_end[c], offsets[c + 1], validation[c]});
    const auto& own = clients.back();
    if (own.begin >= own.end || own.train_end < own.begin || own.train_end > own.end ||
        own.validation < 0 || own.validation > own.end - own.train_end) {
      refuse_file(
          fmt::format("client {} has samples {} to {}, training until {}, {} for validation", c,
                      own.begin, own.end, own.train_end, own.validation),
          file.path(), "offsets");
    }
  }
  return clients;
}

void check_held_out(const ClientLayout& layout, const std::string& path) {
  const int64_t clients = std::ssize(layout.clients);
  if (layout.held_out < 0 || layout.held_out >= clients) {
    refuse_file(fmt::format("{} of {} clients are held out", layout.held_out, clients), path,
                "held_out");
  }
  for (int64_t c = 0; c < clients - layout.held_out; ++c) {
    const auto& own = layout.clients[static_cast<std::size_t>(c)];
    if (own.begin == own.train_end) {
      const auto name = layout.client_names.empty() ? std::string() : layout.client_names[c];
      refuse_file(label_of("client", c, name) + " has no training sample", path, "train_end");
    }
  }
}

// A second extent counts the values of one label.
void read_labels_place(const hdf5::File& file, int64_t samples, Header& header) {
  ClientLayout& layout = header.layout;
  SamplePlaces& places = header.places;
  const bool several = file.has_attribute("multi_label") && read_number(file, "multi_label") != 0;
  if (several && layout.classes > 0) {
    refuse_file("samples with several labels have targets, and the attribute classes is 0",
                file.path(), "multi_label");
  }
  const auto found = layout.classes > 0
                         ? locate(file, "labels", hdf5::kTypeOf<int32_t>, places.labels)
                         : locate(file, "targets", hdf5::kTypeOf<float>, places.targets);
  layout.multi_label = several;
  if (found.size() == 2) layout.label_values = found[1];
  if (found.empty() || found.size() > 2 || found[0] != samples || layout.label_values < 1) {
    refuse_file(fmt::format("there are {} samples and {} labels or targets", samples,
                            fmt::join(found, " x ")),
                file.path(), "features");
  }
}

void read_samples_place(const hdf5::File& file, Header& header) {
  ClientLayout& layout = header.layout;
  SamplePlaces& places = header.places;
  layout.shape = locate(file, "features", feature_type(layout.storage), places.features);
  if (layout.shape.size() < 2) refuse_file("a sample has no extent", file.path(), "features");
  const int64_t samples = layout.shape.front();
  layout.shape.erase(layout.shape.begin());
  if (layout.sample_values() < 1) refuse_file("a sample has no values", file.path(), "features");
  read_labels_place(file, samples, header);
  if (file.has_attribute("common_test")) layout.common_test = read_number(file, "common_test");
  if (layout.common_test < 0 || layout.common_test >= samples) {
    refuse_file(
        fmt::format("{} of {} samples are the common test set", layout.common_test, samples),
        file.path(), "common_test");
  }
  layout.clients = read_clients(file, samples - layout.common_test);
  places.bytes = static_cast<int64_t>(std::filesystem::file_size(file.path()));
}

FeatureRecord read_preparation(const hdf5::File& file, int64_t sample_values) {
  const std::vector<std::string> text = read_names(file, "preparation", 1);
  if (text.empty()) return {};
  FeatureRecord record = hanse::read_features(text.front(), file.path());
  if (!record.values.empty() && std::ssize(record.values) != sample_values) {
    refuse_file(fmt::format("it has {} values of {}", record.values.size(), sample_values),
                file.path(), "preparation");
  }
  return record;
}

Header read_frame(const std::string& path) {
  const hdf5::Section section;
  const auto file = hdf5::File::open_to_read(path);
  if (const int64_t version = read_number(file, "version"); version != kHanseFileVersion) {
    refuse_file(fmt::format("the format's version is {}, this program reads {}", version,
                            kHanseFileVersion),
                path, "version");
  }
  Header header;
  ClientLayout& layout = header.layout;
  layout.classes = read_number(file, "classes");
  if (layout.classes < 0 || layout.classes > kMostClasses) {
    refuse_file(fmt::format("there are {} classes", layout.classes), path, "classes");
  }
  layout.held_out = read_number(file, "held_out");
  layout.storage = read_encoding(file);
  read_samples_place(file, header);
  if (file.contains("digest")) {
    const auto found = locate(file, "digest", hdf5::kTypeOf<int64_t>, header.digest);
    if (std::ranges::count(found, 1) != std::ssize(found)) {
      refuse_file("the digest is not one number", path, "digest");
    }
  }
  layout.client_names = read_names(file, "client_names", std::ssize(layout.clients));
  layout.class_names = read_names(file, "class_names", layout.label_form().scored_classes());
  check_held_out(layout, path);
  layout.record = read_preparation(file, layout.sample_values());
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
                          "the file is incomplete or no HDF5; " + std::string(kHanseFileHint));
  }
}

// A mapped file.
class Content {
 public:
  Content(const Header& header, const std::string& path)
      : header_(header),
        path_(path),
        memory_(map_file(path, header.places.bytes, Access::kRead)),
        arrays_(arrays_at(header.places, memory_.get())) {}

  // In a sequence, -1 marks a position without a class; at least one position has one.
  void check_labels() const {
    const LabelForm form = header_.layout.label_form();
    if (form.multi_label) return check_marks(form.values);
    if (!arrays_.labels) return;
    for (std::size_t i = 0; i < samples(); ++i) {
      const std::span own(arrays_.labels + i * to_index(form.values), to_index(form.values));
      const auto bad = std::ranges::find_if(own, [&](int32_t label) {
        return label < (form.is_sequence() ? -1 : 0) || label >= form.classes;
      });
      if (bad != own.end()) {
        refuse_file(fmt::format("label {} of sample {} is outside [0, {})", *bad, i, form.classes),
                    path_, "labels");
      }
      if (std::ranges::count(own, -1) == std::ssize(own)) {
        refuse_file(fmt::format("no position of sample {} has a label", i), path_, "labels");
      }
    }
  }

  // The digest in the file.
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
      refuse_file(fmt::format("the content is damaged: its digest is {:016x}, it was {:016x}",
                              digest, *stored_digest()),
                  path_, "digest");
    }
    if (header_.layout.storage == Storage::kFloat) {
      check_finite(reinterpret_cast<const float*>(arrays_.features),
                   to_index(header_.layout.sample_values()), "features");
    }
    const auto values = to_index(header_.layout.label_values);
    if (arrays_.targets) check_finite(arrays_.targets, values, "targets");
    return digest;
  }

 private:
  std::size_t samples() const { return static_cast<std::size_t>(header_.layout.samples()); }

  void check_marks(int64_t each) const {
    const std::span all(arrays_.targets, samples() * to_index(each));
    const auto bad = std::ranges::find_if(all, [](float x) { return x != 0 && x != 1; });
    if (bad == all.end()) return;
    refuse_file(fmt::format("{} stands for one of several labels of sample {}, which is 0 or 1",
                            *bad, (bad - all.begin()) / each),
                path_, "targets");
  }

  void check_finite(const float* values, std::size_t width, const char* name) const {
    const std::span all(values, samples() * width);
    const auto bad = std::ranges::find_if_not(all, [](float x) { return std::isfinite(x); });
    if (bad == all.end()) return;
    refuse_file(fmt::format("a value of sample {} is not finite",
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

std::string classes_text(const LabelForm& form) {
  if (form.multi_label) return fmt::format("classes: {}, several a sample\n", form.values);
  if (form.is_sequence()) return fmt::format("classes: {}, one a position\n", form.classes);
  if (form.classes > 0) return fmt::format("classes: {}\n", form.classes);
  return form.values == 1
             ? "classes: none (regression)\n"
             : fmt::format("classes: none (regression with {} outputs)\n", form.values);
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

// The clients of a file, in its order.
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
  text += classes_text(layout.label_form());
  return text + names_text("class names", layout.class_names) + digest_text(content, verify);
}

}  // namespace hanse
