#include "linear_stack.hpp"

#include <algorithm>

#include "buffers.hpp"
#include "tiles.hpp"

namespace hanse {

namespace {

constexpr int64_t kBlockFloats = 128 << 10;  // 512 KiB of weights
constexpr int64_t kProductLimit = 1000000;   // multiplications

}  // namespace

void LinearStack::visit(std::span<const float> rows, std::span<const Batch> batches,
                        const Visit& visit) {
  const int64_t weight = inputs_ * outputs_;
  const auto n = static_cast<int64_t>(rows.size()) / width();
  grow(weights_, n * weight);
  for (int64_t j = 0; j < n; ++j) {
    std::copy_n(rows.data() + j * width(), weight, weights_.data() + j * weight);
  }
  const int64_t block = std::max<int64_t>(1, kBlockFloats / weight);
  for (int64_t first = 0; first < n; first += block) {
    for (std::size_t b = 0; b < batches.size(); ++b) {
      visit_block(first, std::min(block, n - first), rows, b, batches[b], visit);
    }
  }
}

void LinearStack::visit_block(int64_t first, int64_t models, std::span<const float> rows,
                              std::size_t b, const Batch& batch, const Visit& visit) {
  const int64_t weight = inputs_ * outputs_;
  const int64_t most = std::max<int64_t>(1, kProductLimit / (batch.rows * weight));
  const std::vector<float> zeros(static_cast<std::size_t>(bias_ ? 0 : outputs_));
  grow(logits_, batch.rows * outputs_);
  for (int64_t done = 0; done < models; done += most) {
    const int64_t columns = std::min(most, models - done) * outputs_;
    grow(product_, batch.rows * columns);
    multiply(batch.rows, columns, inputs_, 1.0f, {batch.features, inputs_},
             {weights_.data() + (first + done) * weight, inputs_, CblasTrans}, 0.0f,
             product_.data(), columns);
    for (int64_t column = 0; column < columns; column += outputs_) {
      const int64_t j = first + done + column / outputs_;
      const float* bias = bias_ ? rows.data() + j * width() + weight : zeros.data();
      for (int64_t r = 0; r < batch.rows; ++r) {
        const float* from = product_.data() + r * columns + column;
        float* to = logits_.data() + r * outputs_;
        for (int64_t o = 0; o < outputs_; ++o) to[o] = from[o] + bias[o];
      }
      visit(b, static_cast<std::size_t>(j), logits_.data());
    }
  }
}

}  // namespace hanse
