// The tensors of a layout as autograd's leaves on the memory of a parameter row.
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

#include "hanse/model/layout.hpp"

namespace hanse {

// A tensor of the layout on the memory of a row; from_blob knows no const.
inline at::Tensor slot_view(const float* row, const ParameterSlot& slot) {
  return at::from_blob(const_cast<float*>(row) + slot.offset, slot.shape, at::kFloat);
}

// Leaves alias the row, so a write to the row is seen by the next forward pass. The writes go
// through plain pointers and between two graphs: autograd's version counters never see them.
class RowLeaves {
 public:
  // The first `count` tensors of the layout; made anew when `row` is not the one of the last call.
  const std::vector<at::Tensor>& of(const ParameterLayout& layout, std::size_t count,
                                    const float* row) {
    if (row == row_ && count == leaves_.size()) return leaves_;
    leaves_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      leaves_.push_back(slot_view(row, layout.slots()[i]).requires_grad_());
    }
    row_ = row;
    return leaves_;
  }

 private:
  const float* row_ = nullptr;
  std::vector<at::Tensor> leaves_;
};

}  // namespace hanse
