// What kernels of our own do: functions of one item each, which the host calls in a loop and a GPU
// in as many threads; or of blocks of threads, as block_work.hpp has them. Both have the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "augment_work.hpp"
#include "convolution_work.hpp"
#include "dense_work.hpp"
#include "descent_work.hpp"
#include "drop_work.hpp"
#include "hanse/base/both_sides.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/model/entry_step.hpp"
#include "hanse/sums/fold_entry.hpp"
#include "head_work.hpp"
#include "logits_work.hpp"
#include "loss_work.hpp"
#include "pooling_work.hpp"
#include "product_work.hpp"
#include "table_work.hpp"

namespace hanse {

// Adds the updates of some clients to their sum, a group after the other. Block b treats the
// entries b * kThreads + t, ... of every client, in steps of all blocks' threads.
struct FoldWork {
  static constexpr int kThreads = 256;
  static constexpr int64_t kMostBlocks = 256;  // as many threads fill a GPU
  static constexpr int kMost = 64;             // clients
  static constexpr int kGroup = 8;             // of them at once
  static constexpr int kFacts = 2 * kGroup, kParts = kThreads / kFacts;
  struct Scratch {
    double facts[kFacts][kThreads];  // squared norms, then entries that do not fit
    double parts[kFacts][kParts];    // sums of some threads' facts
  };

  const float* rows;           // [clients, n], a row every `stride` values
  const float* theta;          // [n] what the rows left from; null: they are the updates
  int64_t stride, clients, n;  // clients <= kMost
  double scales[kMost];        // coefficients, in exact sums times 2^44
  double limit;                // of an exact addend
  int64_t* exact;              // [n] the sum, in fixed point ...
  float* fast;                 // [n] ... or in float32; the other is null
  double* facts;               // [2 clients, blocks]: squared norms, then entries that do not fit
  const double* along;         // [n_along] what is copied behind the facts
  int64_t n_along;

  HANSE_BOTH_SIDES int64_t blocks() const {
    const int64_t all = (n + kThreads - 1) / kThreads;
    return all < kMostBlocks ? all : kMostBlocks;
  }
  HANSE_BOTH_SIDES int phases() const {
    return 3 * static_cast<int>((clients + kGroup - 1) / kGroup);
  }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t block, int thread, Scratch& scratch) const {
    const int first = phase / 3 * kGroup;
    const int some = clients - first < kGroup ? static_cast<int>(clients) - first : kGroup;
    if (phase % 3 == 0) {
      add(first, some, block, thread, scratch);
    } else if (phase % 3 == 1) {
      const int fact = thread / kParts, part = thread % kParts;
      double sum = 0;
      for (int i = part; i < kThreads; i += kParts) sum += scratch.facts[fact][i];
      scratch.parts[fact][part] = sum;
    } else if (thread < kFacts && thread % kGroup < some) {
      double sum = 0;
      for (const double part : scratch.parts[thread]) sum += part;
      const int64_t row = (thread < kGroup ? 0 : clients) + first + thread % kGroup;
      facts[row * blocks() + block] = sum;
    }
    if (phase > 0 || block > 0) return;
    for (int64_t i = thread; i < n_along; i += kThreads)
      facts[2 * clients * blocks() + i] = along[i];
  }

  // Adds the entries of clients [first, first + some).
  HANSE_BOTH_SIDES void add(int first, int some, int64_t block, int thread,
                            Scratch& scratch) const {
    double squared[kGroup] = {}, misfits[kGroup] = {};
    for (int64_t i = block * kThreads + thread; i < n; i += blocks() * kThreads) {
      const float origin = theta != nullptr ? theta[i] : 0;
      int64_t exact_sum = 0;
      float fast_sum = exact != nullptr ? 0 : fast[i];
      for (int c = 0; c < kGroup; ++c) {
        if (c >= some) continue;
        const float value = rows[(first + c) * stride + i];
        double delta = 0;
        bool fits = true;
        if (exact != nullptr) {
          const ExactEntry entry = exact_entry(value, origin, scales[first + c], limit);
          exact_sum = wrapping_sum(exact_sum, entry.addend);
          delta = entry.delta;
          fits = entry.fits;
        } else {
          const FastEntry entry = fast_entry(value, origin, static_cast<float>(scales[first + c]));
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
      scratch.facts[c][thread] = squared[c];
      scratch.facts[kGroup + c][thread] = misfits[c];
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

using Work = std::variant<FoldWork, SumWork, DropWork, KeepWork, StepWork, ColumnsWork, ImagesWork,
                          SpreadWork, GatherWork, ProductWork, PoolWork, UnpoolWork, SamplesWork,
                          UnitsWork, UnitsBackWork, LossWork, LogitsWork, HeadWork, StartWork,
                          AccumulateWork, DescentWork, ChooseWork, AugmentWork>;

}  // namespace hanse
