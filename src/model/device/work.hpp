// What kernels of our own do: functions of one item each, which the host calls in a loop and a GPU
// in as many threads; or of blocks of threads, as block_work.hpp has them. Both have the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "convolution_work.hpp"
#include "dense_work.hpp"
#include "descent_work.hpp"
#include "drop_work.hpp"
#include "hanse/base/both_sides.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/model/entry_step.hpp"
#include "hanse/sums/fold_entry.hpp"
#include "loss_work.hpp"
#include "pooling_work.hpp"
#include "product_work.hpp"
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

using Work = std::variant<FoldWork, SumWork, DropWork, StepWork, ColumnsWork, ImagesWork,
                          SpreadWork, GatherWork, ProductWork, PoolWork, UnpoolWork, SamplesWork,
                          UnitsWork, UnitsBackWork, LossWork, DescentWork, ChooseWork>;

}  // namespace hanse
