#include "hanse/client/sign_memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

namespace {

constexpr int64_t kPiece = 4096;  // values that stay in the cache until they are measured

// n / rounds > threshold for the counts n = 0, 1, ...: the least count that is enough.
float least_count(double threshold, double rounds) {
  double least = std::floor(threshold * rounds);
  while (least > 0 && (least - 1) / rounds > threshold) --least;
  while (!(least / rounds > threshold)) ++least;
  return static_cast<float>(least);
}

}  // namespace

SignMemory::SignMemory(const ParameterLayout& layout, double threshold)
    : trained_(to_index(layout.n_trainable())), threshold_(threshold) {
  for (const ParameterSlot& slot : layout.slots()) {
    if (slot.trainable) tensors_.push_back({slot.offset, slot.offset + slot.size});
  }
}

std::vector<StateBlock> SignMemory::state_blocks() const {
  return {{"signs", static_cast<int64_t>(trained_)}, {"sign_rounds", 1}};
}

double SignMemory::distance(std::span<const float> update, std::span<const float> state) const {
  std::vector<float> masked(kPiece), mask(kPiece);
  double sum = 0;
  for (const RowPart& tensor : tensors_) {
    double square = 0;
    for (int64_t begin = tensor.begin; begin < tensor.end; begin += kPiece) {
      const auto length = to_index(std::min(kPiece, tensor.end - begin));
      const auto part = std::span(masked).first(length);
      this->mask(update, state, begin, part, std::span(mask).first(length));
      square += inner_product(part, part);
    }
    sum += std::sqrt(square);
  }
  return sum;
}

void SignMemory::mask(std::span<const float> update, std::span<const float> state, int64_t begin,
                      std::span<float> masked, std::span<float> mask) const {
  const float rounds = state[trained_];
  const std::size_t first = to_index(begin);
  const std::size_t trained = std::clamp(trained_, first, first + masked.size()) - first;
  // In the first round nothing has been counted, and everything counts.
  const float least =
      rounds > 0 ? least_count(threshold_, rounds) : -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < trained; ++i) {
    const float u = update[first + i];
    const float down = state[first + i];
    mask[i] = (u <= 0 ? down : rounds - down) >= least ? 1.0F : 0.0F;
    masked[i] = mask[i] * u;
  }
  for (std::size_t i = trained; i < masked.size(); ++i) {
    mask[i] = 1;
    masked[i] = update[first + i];
  }
}

void SignMemory::remember(std::span<const float> update, std::span<float> state) const {
  for (std::size_t i = 0; i < trained_; ++i) state[i] += update[i] <= 0 ? 1.0F : 0.0F;
  state[trained_] += 1;
}

}  // namespace hanse
