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
  std::vector<float> block(to_index(kBlock * values()));
  compute(0, block.data());  // which brings memory and weights
  const double start = monotonic_seconds();
  compute(0, block.data());
  return (monotonic_seconds() - start) * static_cast<double>(shape().blocks);
}

void FrozenCache::compute(int64_t number, float* out) {
  const FlushSubnormals flush;  // whoever asks for it
  const SampleRange range = samples_of(number);
  samples_.resize(to_index(range.size() * federation_.sample_values()));
  federation_.copy(range, samples_.data());
  part_.compute(samples_.data(), range.size(), out);
  ++computed_;
}

// One of this call's, the store's, or computed.
const float* FrozenCache::block(int64_t number) {
  if (store_) {
    if (const float* kept = store_->find(number)) return kept;
  }
  for (std::size_t i = 0; i < used_; ++i) {
    if (made_[i]->number == number) return made_[i]->values.data();
  }
  if (used_ == made_.size()) made_.push_back(std::make_unique<Made>());
  Made& made = *made_[used_++];
  made.number = number;
  made.values.resize(to_index(kBlock * values()));
  const auto behind = samples_of(number).size() * values();
  compute(number, made.values.data());
  std::fill(made.values.begin() + behind, made.values.end(), 0.0F);
  if (!store_) return made.values.data();
  --used_;
  return store_->put(number, made.values.data());
}

void FrozenCache::gather(const Batch& batch, float* out) {
  if (!batch.places.known()) {
    const FlushSubnormals flush;
    return part_.compute(batch.features, batch.rows, out);
  }
  used_ = 0;
  for (int64_t i = 0; i < batch.rows; ++i) {
    const int64_t place = batch.places[i];
    out = std::copy_n(block(place / kBlock) + place % kBlock * values(), values(), out);
  }
}

}  // namespace hanse
