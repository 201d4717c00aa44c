#include <ATen/ATen.h>

#include "hanse/base/index.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/cohorts/network_forward.hpp"
#include "sequences.hpp"

namespace hanse {

namespace {

// The network of src/model/lstm.cpp by LibTorch's autograd, one recurrent product a step for all
// clients.
class LstmForward final : public CohortForward {
 public:
  LstmForward(const SequenceSizes& sizes, bool narrow) : sizes_(sizes), products_(narrow) {
    for (int64_t k = 0; k < sizes.layers && sizes.dropout > 0; ++k) {
      const int64_t steps = k + 1 < sizes.layers || sizes.every ? sizes.length : 1;
      dropouts_.push_back({steps * sizes.units, sizes.dropout, steps});
    }
  }

  at::Tensor logits(std::span<const at::Tensor> leaves, const at::Tensor& input,
                    std::span<const at::Tensor> masks, at::Tensor* representation) const override {
    const int64_t c = input.size(0), b = input.size(1);
    at::Tensor x = embed(leaves[0], input.to(at::kLong).transpose(1, 2));  // [C, length, B, values]
    for (int64_t k = 0; k < sizes_.layers; ++k) {
      const auto layer = leaves.subspan(to_index(1 + 4 * k), 4);
      const std::vector<at::Tensor> h = hidden(layer, x);
      const bool is_last = k + 1 == sizes_.layers && !sizes_.every;  // of which the head reads one
      x = is_last ? h.back() : at::stack(h, 1);
      if (masks.empty()) continue;
      const at::Tensor& mask = masks[to_index(k)];
      x = x * (is_last ? mask : mask.view({c, b, sizes_.length, -1}).transpose(1, 2));
    }
    const std::size_t head = leaves.size() - 2;
    if (sizes_.every) x = x.transpose(1, 2).contiguous();  // [C, B, length, units]
    if (representation != nullptr) *representation = x;
    return dense(products_, x, leaves[head], leaves[head + 1]);
  }

  void check(const Batch& batch) const override { token_ids(batch, sizes_); }

 private:
  struct Step {
    at::Tensor h, c;  // [C, B, units]; undefined before the first one
  };

  // h_t [C, B, units] of every step, of x [C, length, B, inputs]; LstmLayer has the formula.
  std::vector<at::Tensor> hidden(std::span<const at::Tensor> w, const at::Tensor& x) const {
    const at::Tensor inputs = dense(products_, x, w[0], w[2] + w[3]);
    const auto recurrent = products_.factor(w[1].transpose(1, 2));
    std::vector<at::Tensor> h;
    Step last;
    for (int64_t step = 0; step < sizes_.length; ++step) {
      last = x.is_cuda() ? fused(inputs.select(1, step), recurrent, last)
                         : plain(inputs.select(1, step), recurrent, last);
      h.push_back(last.h);
    }
    return h;
  }

  Step plain(at::Tensor sums, const NetworkProducts::Factor& recurrent, const Step& last) const {
    if (last.h.defined()) sums = products_.add(sums, last.h, recurrent);
    const auto gates = sums.chunk(4, -1);
    const at::Tensor in = at::sigmoid(gates[0]) * at::tanh(gates[2]);
    const at::Tensor c = last.h.defined() ? at::sigmoid(gates[1]) * last.c + in : in;
    return {at::sigmoid(gates[3]) * at::tanh(c), c};
  }

  // The same with one kernel for all gates, and one on the way back.
  Step fused(const at::Tensor& sums, const NetworkProducts::Factor& recurrent,
             const Step& last) const {
    const int64_t clients = sums.size(0), batch = sums.size(1), units = sums.size(2) / 4;
    const at::Tensor own =
        last.h.defined() ? products_.multiply(last.h, recurrent) : at::zeros_like(sums);
    const at::Tensor c =
        last.h.defined() ? last.c : at::zeros({clients, batch, units}, sums.options());
    const auto [h_next, c_next, gates] = at::_thnn_fused_lstm_cell(
        sums.reshape({-1, 4 * units}), own.view({-1, 4 * units}), c.view({-1, units}));
    return {h_next.view({clients, batch, units}), c_next.view({clients, batch, units})};
  }

  SequenceSizes sizes_;
  NetworkProducts products_;
};

}  // namespace

std::unique_ptr<CohortForward> make_lstm_cohort(const ModelCase& c, const std::string& /*device*/) {
  return std::make_unique<LstmForward>(lstm_sizes(c), is_bfloat16(c.options));
}

}  // namespace hanse
