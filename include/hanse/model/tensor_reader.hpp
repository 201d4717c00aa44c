// What a network does with tensors that it reads one by one.
#pragma once

#include <cstdint>

namespace hanse {

struct AdapterFactors;

// A network that reads each tensor where it is used can do with less of them in memory than a row
// of float32. A network that is no such one reads its row in one piece.
class TensorReader {
 public:
  // From now on the tensor at `offset` of the row lies there as bfloat16: it is widened, exactly,
  // while an operator reads it, and the row's values are not read. REQUIRES: nobody asks for its
  // gradient, but where it is split.
  virtual void read_narrow(int64_t offset, const uint16_t* values) = 0;
  // Is each use of this matrix a product or a look-up, so that W_0 + s B A need not be formed?
  virtual bool can_split(int64_t offset) const = 0;
  // From now on the row has W_0, and the network computes with W_0 + s B A, of these factors at the
  // time of a pass: x W' = x W_0' + s (x A') B'. Gradients are those by W. REQUIRES: can_split().
  virtual void split(int64_t offset, int64_t rank, float scale, const AdapterFactors& factors) = 0;

 protected:
  ~TensorReader() = default;
};

}  // namespace hanse
