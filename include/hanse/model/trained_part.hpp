// What of a model clients train.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

// merged: a rank forms W = W_0 + s B A; split: x W' = x W_0' + s (x A') B', where each use of a
// matrix can be (tensor_reader.hpp); auto: split where it can be.
enum class AdapterPath { kAuto, kMerged, kSplit };
constexpr auto choices_of(AdapterPath) { return std::array{"auto", "merged", "split"}; }

// The trained part.
struct TrainedPart {
  // Patterns of tensors; empty: all, or with adapters none. Those that name factors of adapters
  // (*.lora_B) say which of these move; none: all.
  std::vector<std::string> train;
  int64_t rank = 0;                 // of the adapters; 0: none
  std::vector<std::string> layers;  // patterns of the matrices with adapters; *: all large enough
  float scale = 1;                  // s of W = W_0 + s B A
  double dropout = 0;               // share of the adapters' inputs that a training step drops
  AdapterPath path = AdapterPath::kAuto;
  bool narrow = false;      // frozen tensors have the values of bfloat16 numbers
  bool moves_base = false;  // rounds merge adapters into W_0, and start from fresh ones
};

// A tensor that both rows have.
struct PartTensor {
  int64_t whole, own, size;  // offsets in the two rows, and length
};

}  // namespace hanse
