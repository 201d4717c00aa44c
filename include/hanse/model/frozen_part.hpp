// What a network computes of a sample before the first tensor that moves. It is a pure function of
// the sample, and is computed once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/model/batch.hpp"

namespace hanse {

// What a network is asked to find its frozen part by.
struct FreezeCase {
  static constexpr int64_t kSamples = 7;

  std::vector<char> moves;         // [slots of the layout] may training change the tensor?
  const float* row = nullptr;      // [P], as long as the frozen part is used
  std::span<const float> samples;  // kSamples, on which passes are compared
};

class FrozenPart {
 public:
  virtual ~FrozenPart() = default;

  // Values in float32 that it makes of a sample.
  virtual int64_t values() const = 0;
  // Names what it computes and the frozen tensors that it reads.
  virtual std::string digest() const = 0;
  // Do the bits of a sample's values depend on the samples beside it? Products of several rows may
  // have an order of their own.
  virtual bool mixes_bits() const { return true; }
  // out [rows, values()] <- of samples [rows, values of a sample]. Throws Error as a pass does.
  virtual void compute(const float* samples, int64_t rows, float* out) = 0;
};

// Where passes find the frozen values of samples.
class FrozenValues {
 public:
  virtual ~FrozenValues() = default;

  // out [rows, FrozenPart::values()] <- of the batch's samples: by their places in the data, or if
  // these are unknown of the batch alone. Throws Error as FrozenPart::compute().
  virtual void gather(const Batch& batch, float* out) = 0;
};

// A network that can compute its frozen part apart from the rest.
class CuttableNetwork {
 public:
  // Finds what is frozen before the first tensor that moves, and keeps it. Null: nothing. Throws
  // Error as a pass does.
  virtual FrozenPart* freeze(const FreezeCase& c) = 0;
  // From now on passes are over the rest, and take what is frozen from `values`, which must outlive
  // them. The gradient of what does not move is 0 there. `part`: what freeze() has found.
  virtual void take_frozen(FrozenValues& values, const FrozenPart& part) = 0;

 protected:
  ~CuttableNetwork() = default;
};

}  // namespace hanse
