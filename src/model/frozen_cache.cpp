#include "hanse/model/frozen_cache.hpp"

#include <algorithm>

#include "hanse/base/clock.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/subnormals.hpp"

namespace hanse {

FrozenCache::FrozenCache(const Federation& federation, FrozenPart& part)
    : federation_(federation), part_(part) {}

FrozenStore::Shape FrozenCache::shape() const {
  return {.blocks = (federation_.samples() + kBlock - 1) / kBlock,
          .block_bytes = kBlock * values() * static_cast<int64_t>(sizeof(float))};
}

SampleRange FrozenCache::samples_of(int64_t number) const {
  return {number * kBlock, std::min((number + 1) * kBlock, federation_.samples())};
}

std::string FrozenCache::first_samples() const {
  const SampleRange first = samples_of(0);
  std::vector<float> samples(to_index(first.size() * federation_.sample_values()));
  federation_.copy(first, samples.data());
  return digest_hex(std::as_bytes(std::span(samples)));
}

double FrozenCache::seconds_of_all() {
  std::vector<float> values_of_block(to_index(kBlock * values()));
  const double start = monotonic_seconds();
  compute(0, values_of_block.data());
  const double seconds = monotonic_seconds() - start;
  if (store_ && store_->find(0) == nullptr) store_->put(0, values_of_block.data());
  return seconds * static_cast<double>(shape().blocks);
}

void FrozenCache::compute(int64_t number, float* out) {
  const FlushSubnormals flush;  // whoever asks for it
  const SampleRange range = samples_of(number);
  samples_.resize(to_index(range.size() * federation_.sample_values()));
  federation_.copy(range, samples_.data());
  part_.compute(samples_.data(), range.size(), out);
  ++computed_;
}

// One of the store, of those that were made, or computed.
const float* FrozenCache::block(int64_t number) {
  if (store_) {
    if (const float* kept = store_->find(number)) return kept;
  }
  const auto [place, is_new] = made_.try_emplace(number);
  Made& made = place->second;
  made.used = calls_;
  if (!is_new) return made.values.data();
  made.values.resize(to_index(kBlock * values()));  // behind the last samples zeros
  compute(number, made.values.data());
  if (!store_) return made.values.data();
  const float* const kept = store_->put(number, made.values.data());
  if (kept != made.values.data()) made_.erase(place);
  return kept;
}

// Drops the blocks that were not used for longest, until the others have room.
void FrozenCache::forget_unused() {
  const int64_t most = room_ / std::max<int64_t>(shape().block_bytes, 1);
  while (std::ssize(made_) > most) {
    const auto oldest =
        std::ranges::min_element(made_, {}, [](const auto& entry) { return entry.second.used; });
    made_.erase(oldest);
  }
}

void FrozenCache::gather(const Batch& batch, float* out) {
  if (!batch.places.known()) {
    const FlushSubnormals flush;
    return part_.compute(batch.features, batch.rows, out);
  }
  ++calls_;
  for (int64_t i = 0; i < batch.rows; ++i) {
    const int64_t place = batch.places[i];
    out = std::copy_n(block(place / kBlock) + place % kBlock * values(), values(), out);
  }
  forget_unused();
}

}  // namespace hanse
