#include "client_source.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/data/names.hpp"
#include "partition/split.hpp"

namespace hanse {

namespace {

// Splits the samples [begin, end_of(client)) of every client.
void split_part(const ClientLayout& layout, ClientSplitter&& splitter, const SampleArrays& arrays,
                int64_t (*end_of)(const ClientRanges& own)) {
  std::vector<int64_t> own;
  std::vector<std::byte> scratch;
  for (std::size_t c = 0; c < layout.clients.size(); ++c) {
    const int64_t begin = layout.clients[c].begin;
    own.resize(static_cast<std::size_t>(end_of(layout.clients[c]) - begin));
    std::iota(own.begin(), own.end(), begin);
    splitter.split(own, c);
    const auto move = [&](std::byte* array, int64_t width) {
      std::byte* first = array + begin * width;
      scratch.assign(first, first + std::ssize(own) * width);
      copy_ordered(first, scratch.data(), own, begin, width);
    };
    arrays.for_each(layout, move);
    if (arrays.rows) move(reinterpret_cast<std::byte*>(arrays.rows), sizeof *arrays.rows);
  }
}

constexpr std::size_t kMostNames = 8;  // that a line shows

std::string class_text(const ClientLayout& layout) {
  const LabelForm form = layout.label_form();
  if (layout.classes == 0 && !layout.multi_label) {
    return layout.label_values == 1 ? "a number to predict"
                                    : fmt::format("{} numbers to predict", layout.label_values);
  }
  std::string text = counted(form.scored_classes(), layout.multi_label ? "label" : "class",
                             layout.multi_label ? "labels" : "classes");
  if (!layout.class_names.empty()) text += ": " + shortened(layout.class_names);
  return text;
}

// "; class 0 has no sample"
std::string empty_classes(const ClientLayout& layout, std::span<const int32_t> labels) {
  if (layout.classes == 0 || layout.label_values != 1) return "";
  std::vector<bool> seen(to_index(layout.classes));
  for (const int32_t label : labels) seen[static_cast<std::size_t>(label)] = true;
  std::vector<std::string> missing;
  for (std::size_t c = 0; c < seen.size(); ++c) {
    if (seen[c]) continue;
    missing.push_back(layout.class_names.empty() ? std::to_string(c) : layout.class_names[c]);
  }
  if (missing.empty()) return "";
  return fmt::format("; {} {} no sample: {}", counted(std::ssize(missing), "class", "classes"),
                     missing.size() == 1 ? "has" : "have", shortened(missing));
}

}  // namespace

std::string shortened(const std::vector<std::string>& names) {
  if (names.size() <= kMostNames) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + kMostNames - 1);
  return fmt::format("{} ... {}", fmt::join(first, ", "), names.back());
}

int64_t ClientLayout::sample_values() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

SampleArrays arrays_at(const SamplePlaces& places, std::byte* memory) {
  const auto at = [&](int64_t place) { return place < 0 ? nullptr : memory + place; };
  return {.features = at(places.features),
          .labels = reinterpret_cast<int32_t*>(at(places.labels)),
          .targets = reinterpret_cast<float*>(at(places.targets))};
}

void copy_ordered(std::byte* out, const void* in, std::span<const int64_t> order, int64_t begin,
                  int64_t width) {
  for (const int64_t from : order) {
    std::memcpy(out, static_cast<const std::byte*>(in) + (from - begin) * width,
                static_cast<std::size_t>(width));
    out += width;
  }
}

void check_names(const ClientLayout& layout, const std::string& path) {
  require_utf8(layout.client_names, "client", path);
  require_utf8(layout.class_names, "class", path);
}

FeatureRecord record_of(const ClientLayout& layout) {
  FeatureRecord record = layout.record;
  record.shape = layout.shape;
  record.labels = layout.label_form();
  record.class_names = layout.class_names;
  return record;
}

std::vector<std::size_t> lay_out(ClientLayout& layout, const std::vector<int64_t>& train,
                                 const std::vector<int64_t>& test, double test_fraction) {
  std::vector<std::size_t> order, held_out;
  for (std::size_t c = 0; c < train.size(); ++c) {
    if (train[c] > 0) order.push_back(c);
    if (train[c] == 0 && test[c] > 0) held_out.push_back(c);
  }
  order.insert(order.end(), held_out.begin(), held_out.end());
  layout.held_out = std::ssize(held_out);
  if (layout.held_out > 0) {
    notice(fmt::format("{} clients have test samples alone: they are held out of training",
                       layout.held_out));
  }
  layout.clients.reserve(order.size());
  for (const std::size_t c : order) {
    const int64_t begin = layout.samples();
    const int64_t end = begin + train[c] + test[c];
    const int64_t chosen = test_fraction > 0 ? samples_kept_out(train[c], test_fraction) : test[c];
    layout.clients.push_back({begin, end - chosen, end});
  }
  return order;
}

void lay_validation(ClientLayout& layout, double validation_fraction) {
  for (std::size_t c = 0; c < layout.clients.size(); ++c) {
    ClientRanges& own = layout.clients[c];
    const int64_t samples = own.train_end - own.begin;
    const std::string name = layout.client_names.empty() ? "" : layout.client_names[c];
    require_training(samples, validation_fraction,
                     label_of("client", static_cast<int64_t>(c), name));
    own.validation = samples_kept_out(samples, validation_fraction);
    own.train_end -= own.validation;
  }
}

// Sizes are digested, too, since the same bytes can be read in another shape; validation sizes if
// there are any.
uint64_t digest_of(const ClientLayout& layout, const SampleArrays& arrays) {
  uint64_t digest = 0;
  const auto add = [&](const void* data, std::size_t bytes) {
    digest = XXH3_64bits_withSeed(data, bytes, digest);
  };
  const int64_t sizes[] = {static_cast<int64_t>(layout.storage), layout.classes, layout.held_out,
                           std::ssize(layout.clients)};
  add(sizes, sizeof sizes);
  if (layout.common_test > 0) add(&layout.common_test, sizeof layout.common_test);
  if (layout.label_values > 1 || layout.multi_label) {
    const int64_t form[] = {layout.label_values, layout.multi_label ? 1 : 0};
    add(form, sizeof form);
  }
  add(layout.shape.data(), layout.shape.size() * sizeof(int64_t));
  // As add() of an array of all clients' numbers, which would take as much memory as the clients.
  const auto add_each = [&](auto numbers_of) {
    XXH3_state_t state;
    XXH3_64bits_reset_withSeed(&state, digest);
    for (const ClientRanges& own : layout.clients) {
      const auto numbers = numbers_of(own);
      XXH3_64bits_update(&state, numbers.data(), sizeof numbers);
    }
    digest = XXH3_64bits_digest(&state);
  };
  add_each([](const ClientRanges& own) { return std::array{own.begin, own.train_end, own.end}; });
  if (std::ranges::any_of(layout.clients, [](const auto& own) { return own.validation > 0; })) {
    add_each([](const ClientRanges& own) { return std::array{own.validation}; });
  }
  for (const auto* names : {&layout.client_names, &layout.class_names}) {
    for (const std::string& name : *names) add(name.c_str(), name.size() + 1);
  }
  arrays.for_each(layout, [&](const std::byte* array, int64_t width) {
    add(array, static_cast<std::size_t>(layout.samples() * width));
  });
  return digest;
}

void split_clients(const ClientLayout& layout, double test_fraction, double validation_fraction,
                   uint64_t seed, const SampleArrays& arrays) {
  const bool stratified = arrays.labels && layout.label_values == 1;
  const std::span<const int32_t> labels(
      arrays.labels, stratified ? static_cast<std::size_t>(layout.samples()) : 0);
  if (test_fraction > 0) {
    split_part(layout, ClientSplitter(labels, layout.classes, test_fraction, seed), arrays,
               [](const ClientRanges& own) { return own.end; });
  }
  if (validation_fraction > 0) {
    split_part(layout,
               ClientSplitter(labels, layout.classes, validation_fraction, seed, kValidationPart),
               arrays, [](const ClientRanges& own) { return own.test_begin(); });
  }
}

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string data_line(const ClientLayout& layout, std::span<const int32_t> labels) {
  std::string line =
      fmt::format("data: {} of {}, {}", counted(layout.samples(), "sample", "samples"),
                  counted(std::ssize(layout.clients), "client", "clients"), class_text(layout));
  line += empty_classes(layout, labels);
  if (!layout.unread.empty()) line += fmt::format("; not read: {}", fmt::join(layout.unread, ", "));
  return line;
}

}  // namespace hanse
