// What kernels of our own do: functions of one item each, which the host calls in a loop and a GPU
// in as many threads. Both have the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "descent_work.hpp"
#include "hanse/base/both_sides.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/model/entry_step.hpp"
#include "hanse/sums/fold_entry.hpp"
#include "loss_work.hpp"
#include "network_work.hpp"
#include "table_work.hpp"

namespace hanse {

// Adds the updates of some clients to their sum. An item is a lane: the entries lane, lane + lanes,
// ... of every client.
struct FoldWork {
  static constexpr int64_t kLanes = 65536;  // at most; as many threads fill a GPU
  static constexpr int kGroup = 8;          // clients at most

  const float* rows;           // [clients, n], a row every `stride` values
  const float* theta;          // [n] what the rows left from; null: they are the updates
  int64_t stride, clients, n;  // clients <= kGroup
  double scales[kGroup];       // coefficients, in exact sums times 2^44
  double limit;                // of an exact addend
  int64_t* exact;              // [n] the sum, in fixed point ...
  float* fast;                 // [n] ... or in float32; the other is null
  double* facts;               // [2 clients, lanes]: squared norms, then entries that do not fit

  int64_t lanes() const { return std::min(n, kLanes); }

  HANSE_BOTH_SIDES void operator()(int64_t lane) const {
    const int64_t all = n < kLanes ? n : kLanes;
    double squared[kGroup] = {}, misfits[kGroup] = {};
    for (int64_t i = lane; i < n; i += all) {
      const float origin = theta != nullptr ? theta[i] : 0;
      int64_t exact_sum = 0;
      float fast_sum = exact != nullptr ? 0 : fast[i];
      for (int c = 0; c < kGroup; ++c) {
        if (c >= clients) continue;
        const float value = rows[c * stride + i];
        double delta = 0;
        bool fits = true;
        if (exact != nullptr) {
          const ExactEntry entry = exact_entry(value, origin, scales[c], limit);
          exact_sum = wrapping_sum(exact_sum, entry.addend);
          delta = entry.delta;
          fits = entry.fits;
        } else {
          const FastEntry entry = fast_entry(value, origin, static_cast<float>(scales[c]));
          fast_sum += entry.addend;
          delta = static_cast<double>(entry.delta);
          fits = entry.fits;
        }
        squared[c] += delta * delta;
        misfits[c] += fits ? 0 : 1;
      }
      if (exact != nullptr) {
        exact[i] = wrapping_sum(exact[i], exact_sum);
      } else {
        fast[i] = fast_sum;
      }
    }
    for (int c = 0; c < kGroup; ++c) {
      if (c >= clients) continue;
      facts[c * all + lane] = squared[c];
      facts[(clients + c) * all + lane] = misfits[c];
    }
  }
};

// Sums of a row's entries u, u + to, ...: an item is one of them, of [rows, to].
struct SumWork {
  const double* from;  // [rows, n]
  double* sums;        // [rows, to]
  int64_t n, to;

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const double* row = from + item / to * n;
    double sum = 0;
    for (int64_t i = item % to; i < n; i += to) sum += row[i];
    sums[item] = sum;
  }
};

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
  float* mask;             // [C, B, width], zero where a client has no sample

  // How many values of 64 bits the masks of `samples` take.
  static int64_t draws(int64_t samples, int64_t width) { return (samples * width + 3) / 4; }

  // The most blocks of a client; its values may begin and end within one.
  HANSE_BOTH_SIDES int64_t blocks() const { return batch * width / 16 + 2; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t client = item / blocks();
    const int64_t values = counts[client] * width;
    const int64_t block = drawn[client] / 4 + item % blocks();
    const int64_t first = 16 * block - 4 * drawn[client];  // of the block's values, in the masks
    if (first >= values) return;
    const int64_t* stream = streams + 3 * client;
    const PhiloxBlock bits(static_cast<uint64_t>(stream[0]), purpose, static_cast<uint64_t>(block),
                           static_cast<uint64_t>(stream[1]), static_cast<uint64_t>(stream[2]));
    for (int i = 0; i < 16; ++i) {
      const int64_t value = first + i;
      if (value < 0 || value >= values) continue;
      const auto drawn_bits = static_cast<int32_t>(bits.values[i / 4] >> (16 * (i % 4)) & 0xffff);
      mask[client * batch * width + place_of(value, counts[client])] =
          drawn_bits >= threshold ? scale : 0.0F;
    }
  }

  // The value's place in [samples, steps, width / steps]; they are drawn [steps, samples, ...].
  HANSE_BOTH_SIDES int64_t place_of(int64_t value, int64_t samples) const {
    const int64_t one = width / steps;
    const int64_t step = value / (samples * one), sample = value / one % samples;
    return sample * width + step * one + value % one;
  }
};

// The server's step of one entry.
struct StepWork {
  EntryStep step;
  const int64_t* exact;   // [n] the mixed update, in units of 2^-44 ...
  const float* fast;      // [n] ... or in float32; the other is null
  float* theta;           // [n]
  float *first, *second;  // [n] what the rule keeps, else null

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    float u = exact != nullptr ? exact_value(exact[i]) : fast[i];
    if (step.scale != 1) u *= step.scale;
    float one = first != nullptr ? first[i] : 0, two = second != nullptr ? second[i] : 0;
    switch (step.rule) {
      case EntryRule::kSgd: step_entry<EntryRule::kSgd>(step.rates, u, theta[i], one, two); break;
      case EntryRule::kMomentum:
        step_entry<EntryRule::kMomentum>(step.rates, u, theta[i], one, two);
        break;
      case EntryRule::kAdagrad:
        step_entry<EntryRule::kAdagrad>(step.rates, u, theta[i], one, two);
        break;
      case EntryRule::kAdam: step_entry<EntryRule::kAdam>(step.rates, u, theta[i], one, two); break;
      case EntryRule::kYogi: step_entry<EntryRule::kYogi>(step.rates, u, theta[i], one, two); break;
    }
    if (first != nullptr) first[i] = one;
    if (second != nullptr) second[i] = two;
  }
};

using Work = std::variant<FoldWork, SumWork, DropWork, StepWork, ColumnsWork, ImagesWork, PoolWork,
                          UnpoolWork, UnitsWork, UnitsBackWork, LossWork, DescentWork, ChooseWork>;

}  // namespace hanse
