// What a network computes of a sample before the first tensor that moves. It is a pure function of
// the sample, and is computed once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/model/batch.hpp"

namespace hanse {

// What a model is asked to find its frozen part by.
struct FreezeCase {
  static constexpr int64_t kSamples = 7;

  std::vector<char> moves;         // [slots of the layout] may training change the tensor?
  const float* row = nullptr;      // [P]
  std::span<const float> samples;  // kSamples, on which passes are compared
};

class FrozenPart {
 public:
  virtual ~FrozenPart() = default;

  // Values in float32 that it makes of a sample.
  virtual int64_t values() const = 0;
  // Names what it computes and the frozen tensors that it reads, in `row` [P].
  virtual std::string digest(const float* row) const = 0;
  // out [rows, values()] <- of samples [rows, values of a sample]. The bits depend on all of these,
  // for products of several rows have an order of their own. Throws Error as a pass does.
  virtual void compute(const float* row, const float* samples, int64_t rows, float* out) = 0;
};

// Where passes find the frozen values of samples.
class FrozenValues {
 public:
  virtual ~FrozenValues() = default;

  // out [rows, FrozenPart::values()] <- of the samples in these places. Throws Error as
  // FrozenPart::compute().
  virtual void gather(const float* row, const BatchPlaces& places, int64_t rows, float* out) = 0;
};

// A network that can compute its frozen part apart from the rest.
class CuttableNetwork {
 public:
  // Finds what is frozen before the first tensor that moves, and keeps it. Null: nothing. Throws
  // Error as a pass does.
  virtual FrozenPart* freeze(const FreezeCase& c) = 0;
  // Batches with places take what is frozen from `values` from now on, which must outlive the
  // passes; null: they compute it. REQUIRES: freeze() found something.
  virtual void take_frozen(FrozenValues* values) = 0;

 protected:
  ~CuttableNetwork() = default;
};

}  // namespace hanse
