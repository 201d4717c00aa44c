// Products of graphs in bfloat16: what is a factor of them. A factor is rounded to nearest even and
// stays a float32 tensor, so that the type of every other value does too; sums are LibTorch's in
// float32. NetworkProducts has the same arithmetic, forwards and backwards.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace hanse {

// Is this argument of the operator ("aten::mm") a factor?
bool is_factor(const std::string& op, int64_t argument);

// x with the values of bfloat16 numbers, if it is float32.
at::Tensor rounded_factor(const at::Tensor& x);

// Puts right what the operator made of rounded factors besides products, from its first value.
using GraphCorrection = void (*)(const at::Tensor& first, c10::IValue& result);

// Null: nothing.
GraphCorrection correction_of(const std::string& op);

// While it lives, a GPU may multiply float32 matrices as TF32, which has all bits of rounded
// factors.
class Tf32Products {
 public:
  explicit Tf32Products(bool on);
  ~Tf32Products();
  Tf32Products(const Tf32Products&) = delete;

 private:
  bool changes_;
};

}  // namespace hanse
