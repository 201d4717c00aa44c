#include "client_source.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/log.hpp"
#include "split.hpp"

namespace hanse {

namespace {

// Moves element order[i] - begin to place i of the client's part, `width` bytes each.
void reorder(std::byte* first, std::span<const int64_t> order, int64_t begin, int64_t width,
             std::vector<std::byte>& scratch) {
  scratch.assign(first, first + static_cast<int64_t>(order.size()) * width);
  for (const int64_t from : order) {
    std::memcpy(first, scratch.data() + (from - begin) * width, static_cast<std::size_t>(width));
    first += width;
  }
}

}  // namespace

int64_t ClientLayout::sample_values() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<ClientRanges> lay_out(const std::vector<int64_t>& train,
                                  const std::vector<int64_t>& test, double test_fraction) {
  std::vector<ClientRanges> clients;
  clients.reserve(train.size());
  int64_t begin = 0;
  for (std::size_t c = 0; c < train.size(); ++c) {
    const int64_t end = begin + train[c] + test[c];
    const int64_t chosen = test_fraction > 0 ? test_samples(train[c], test_fraction) : test[c];
    clients.push_back({begin, end - chosen, end});
    begin = end;
  }
  return clients;
}

void tell_unmatched(int64_t train_only, int64_t test_only) {
  if (train_only > 0) {
    notice(fmt::format("{} clients have no test samples: they are tested on those they train on",
                       train_only));
  }
  if (test_only > 0) {
    notice(fmt::format("{} clients have test samples alone: they are held out of training",
                       test_only));
  }
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
    const int64_t width = layout.sample_bytes();
    reorder(arrays.features + begin * width, own, begin, width, scratch);
    if (arrays.labels) {
      reorder(reinterpret_cast<std::byte*>(arrays.labels + begin), own, begin, sizeof(int32_t),
              scratch);
    }
    if (arrays.targets) {
      reorder(reinterpret_cast<std::byte*>(arrays.targets + begin), own, begin, sizeof(float),
              scratch);
    }
  }
}

}  // namespace hanse
