#include "client_source.hpp"

#include <cstring>
#include <numeric>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hanse/base/log.hpp"
#include "split.hpp"

namespace hanse {

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
    const int64_t chosen = test_fraction > 0 ? test_samples(train[c], test_fraction) : test[c];
    layout.clients.push_back({begin, end - chosen, end});
  }
  return order;
}

// The sizes are part of it, since the same bytes can be read in another shape.
uint64_t digest_of(const ClientLayout& layout, const SampleArrays& arrays) {
  uint64_t digest = 0;
  const auto add = [&](const void* data, std::size_t bytes) {
    digest = XXH3_64bits_withSeed(data, bytes, digest);
  };
  const int64_t sizes[] = {static_cast<int64_t>(layout.storage), layout.classes, layout.held_out,
                           std::ssize(layout.clients)};
  add(sizes, sizeof sizes);
  if (layout.common_test > 0) add(&layout.common_test, sizeof layout.common_test);
  add(layout.shape.data(), layout.shape.size() * sizeof(int64_t));
  add(layout.clients.data(), layout.clients.size() * sizeof(ClientRanges));
  for (const auto* names : {&layout.client_names, &layout.class_names}) {
    for (const std::string& name : *names) add(name.c_str(), name.size() + 1);
  }
  arrays.for_each(layout, [&](const std::byte* array, int64_t width) {
    add(array, static_cast<std::size_t>(layout.samples() * width));
  });
  return digest;
}

void split_clients(const ClientLayout& layout, double test_fraction, uint64_t seed,
                   const SampleArrays& arrays) {
  const std::span<const int32_t> labels(
      arrays.labels, arrays.labels ? static_cast<std::size_t>(layout.samples()) : 0);
  ClientSplitter splitter(labels, layout.classes, test_fraction, seed);
  std::vector<int64_t> own;
  std::vector<std::byte> scratch;
  for (std::size_t c = 0; c < layout.clients.size(); ++c) {
    const int64_t begin = layout.clients[c].begin;
    own.resize(static_cast<std::size_t>(layout.clients[c].end - begin));
    std::iota(own.begin(), own.end(), begin);
    splitter.split(own, static_cast<uint64_t>(c));
    arrays.for_each(layout, [&](std::byte* array, int64_t width) {
      std::byte* first = array + begin * width;
      scratch.assign(first, first + std::ssize(own) * width);
      copy_ordered(first, scratch.data(), own, begin, width);
    });
  }
}

}  // namespace hanse
