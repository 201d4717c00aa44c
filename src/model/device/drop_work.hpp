// Masks of dropout, drawn where they are needed.
#pragma once

#include <cstdint>

#include "four.hpp"
#include "hanse/base/both_sides.hpp"

namespace hanse {

// Philox 4x64-10 (Salmon et al. 2011, section 3.3): the next four values of RandomStream.
struct PhiloxBlock {
  uint64_t values[4];

  HANSE_BOTH_SIDES PhiloxBlock(uint64_t k0, uint64_t k1, uint64_t index, uint64_t round,
                               uint64_t client)
      : values{index, round, client, 0} {
    for (int i = 0; i < 10; ++i) {
      const auto a = static_cast<unsigned __int128>(0xD2E7470EE14C6C93) * values[0];
      const auto b = static_cast<unsigned __int128>(0xCA5A826395121157) * values[2];
      values[0] = static_cast<uint64_t>(b >> 64) ^ values[1] ^ k0;
      values[1] = static_cast<uint64_t>(b);
      values[2] = static_cast<uint64_t>(a >> 64) ^ values[3] ^ k1;
      values[3] = static_cast<uint64_t>(a);
      k0 += 0x9E3779B97F4A7C15;
      k1 += 0xBB67AE8584CAA73B;
    }
  }
};

// draw_mask() of dropout.hpp for every client's samples of a step. An item is a block of a client's
// stream, 16 of its masks' values: item = client * blocks() + block.
struct DropWork {
  uint64_t purpose;
  int32_t threshold;       // of DropoutRule
  float scale;             // of DropoutRule
  int64_t batch;           // B
  int64_t width;           // values a sample
  int64_t steps;           // they are drawn [steps, samples, width / steps]
  const int64_t* counts;   // [C] samples
  const int64_t* streams;  // [C, 3] seed, round and client of each stream
  const int64_t* drawn;    // [C] values of 64 bits that were drawn before
  float* mask;             // [C, B, width], zero where a client has no sample; 16-byte aligned

  // How many values of 64 bits the masks of `samples` take.
  static int64_t draws(int64_t samples, int64_t width) { return (samples * width + 3) / 4; }

  // The most blocks of a client; its values may begin and end within one.
  HANSE_BOTH_SIDES int64_t blocks() const { return batch * width / 16 + 2; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t client = item / blocks(), number = item - client * blocks();
    const int64_t count = counts[client], values = count * width;
    const int64_t block = drawn[client] / 4 + number;
    const int64_t first = 16 * block - 4 * drawn[client];  // of the block's values, in the masks
    if (first >= values) return;
    const int64_t* stream = streams + 3 * client;
    const PhiloxBlock bits(static_cast<uint64_t>(stream[0]), purpose, static_cast<uint64_t>(block),
                           static_cast<uint64_t>(stream[1]), static_cast<uint64_t>(stream[2]));
    float* own = mask + client * batch * width;
    for (int i = 0; i < 16; i += 4) {
      Four four;  // stored at once
      for (int k = 0; k < 4; ++k) {
        const auto drawn_bits = static_cast<int32_t>(bits.values[i / 4] >> (16 * k) & 0xffff);
        four.values[k] = drawn_bits >= threshold ? scale : 0.0F;
      }
      const int64_t value = first + i;
      if (steps == 1 && batch * width % 4 == 0 && value >= 0 && value + 4 <= values) {
        *reinterpret_cast<Four*>(own + value) = four;  // they stand as they are drawn
        continue;
      }
      for (int k = 0; k < 4; ++k) {
        if (value + k < 0 || value + k >= values) continue;
        own[steps == 1 ? value + k : place_of(value + k, count)] = four.values[k];
      }
    }
  }

  // The value's place in [samples, steps, width / steps]; they are drawn [steps, samples, ...].
  HANSE_BOTH_SIDES int64_t place_of(int64_t value, int64_t samples) const {
    const int64_t one = width / steps;
    const int64_t step = value / (samples * one), sample = value / one % samples;
    return sample * width + step * one + value % one;
  }
};

// HostMasks::keep(): 1 where 32 bits of a stream are below the threshold. An item is a block of the
// stream, 8 of the mask's values.
struct KeepWork {
  uint64_t purpose, threshold;
  const int64_t* seed;  // [1] of the stream
  int64_t drawn;        // values of 64 bits that were drawn before
  int64_t values;       // of the mask
  float* floats;        // [values], or ...
  bool* bools;          // ... [values]; the other is null

  // How many values of 64 bits a mask takes.
  static int64_t draws(int64_t values) { return (values + 1) / 2; }
  int64_t items() const { return values > 0 ? (drawn + draws(values) - 1) / 4 - drawn / 4 + 1 : 0; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t block = drawn / 4 + item;
    const PhiloxBlock bits(static_cast<uint64_t>(*seed), purpose, static_cast<uint64_t>(block), 0,
                           0);
    for (int i = 0; i < 8; ++i) {
      const int64_t value = 2 * (4 * block - drawn) + i;
      if (value < 0 || value >= values) continue;
      const bool keeps = (bits.values[i / 2] >> (32 * (i % 2)) & 0xffffffff) < threshold;
      if (floats != nullptr) floats[value] = keeps ? 1.0F : 0.0F;
      if (bools != nullptr) bools[value] = keeps;
    }
  }
};

}  // namespace hanse
