// The frozen part of a network in closed form: its first layers, in which a sample's bits do not
// depend on the samples beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/model/frozen_part.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

class FrozenPrefix final : public FrozenPart {
 public:
  // FrozenPart::compute().
  using Compute = std::function<void(const float* samples, int64_t rows, float* out)>;

  // `layers`: what they are; `read`: the values of the row that they
  // read, its first ones.
  FrozenPrefix(std::string layers, std::span<const float> read, int64_t values, Compute compute)
      : layers_(std::move(layers)), read_(read), values_(values), compute_(std::move(compute)) {}

  int64_t values() const override { return values_; }
  std::string digest() const override { return layers_ + digest_hex(std::as_bytes(read_)); }
  bool mixes_bits() const override { return false; }
  void compute(const float* samples, int64_t rows, float* out) override {
    compute_(samples, rows, out);
  }

  // Where the rest of the passes takes them from; null: passes compute them.
  FrozenValues* given = nullptr;
  int64_t parameters() const { return std::ssize(read_); }
  // [rows, values()] of the batch, until the next call, and by last(), too. REQUIRES: `given`.
  const float* gathered(const Batch& batch, int64_t read_ahead = 0) {
    float* values = grow(gathered_, batch.rows * values_ + read_ahead);
    given->gather(batch, values);
    return values;
  }
  const float* last() const { return gathered_.data(); }

 private:
  std::string layers_;
  std::span<const float> read_;
  int64_t values_;
  Compute compute_;
  AlignedFloats gathered_;
};

// Does a step that moves these slots of the layout use the gradient of the tensor at an offset?
class MovingSlots final : public RowStep {
 public:
  MovingSlots(const ParameterLayout& layout, const std::vector<char>& moves)
      : layout_(layout), moves_(moves) {}

  void apply(int64_t, const float*, int64_t) override {}
  bool wants(int64_t offset) const override {
    const auto& slots = layout_.slots();
    const auto slot = std::ranges::find(slots, offset, &ParameterSlot::offset);
    return moves_[static_cast<std::size_t>(slot - slots.begin())] != 0;
  }

 private:
  const ParameterLayout& layout_;
  const std::vector<char>& moves_;
};

// Hands zeros to the target for the slots of which the prefix is made, those below `end`.
inline void add_zeros(const ParameterLayout& layout, int64_t end, const GradientTarget& target) {
  AlignedFloats zeros;
  for (const ParameterSlot& slot : layout.slots()) {
    if (slot.offset >= end || !target.wants(slot.offset)) continue;
    zeros.resize(std::max(zeros.size(), static_cast<std::size_t>(slot.size)), 0.0F);
    target.add(slot.offset, zeros.data(), slot.size);
  }
}

}  // namespace hanse
