#include "networks/scripts/script_operators.hpp"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace hanse {

namespace {

constexpr const char* kAttention = "aten::scaled_dot_product_attention";

// softmax(q k^T scale + mask) v of q [..., L, d], k [..., S, d], v [..., S, e]. A row of which
// everything is masked is 0. With `grouped` several heads of q share one of k and v.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const c10::optional<at::Tensor>& mask, double dropout, bool causal,
                     c10::optional<double> scale, bool grouped) {
  const auto heads_of_q = [&](const at::Tensor& x) {
    return grouped ? x.repeat_interleave(q.size(-3) / x.size(-3), -3) : x;
  };
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const double least = -std::numeric_limits<double>::infinity();
  at::Tensor scores = at::matmul(q * factor, heads_of_q(k).transpose(-2, -1));
  if (causal) {
    const auto bools = q.options().dtype(at::kBool);
    scores.masked_fill_(at::ones({q.size(-2), k.size(-2)}, bools).tril().logical_not(), least);
  }
  if (mask && mask->defined()) {
    scores = mask->scalar_type() == at::kBool ? scores.masked_fill(mask->logical_not(), least)
                                              : scores + *mask;
  }
  const at::Tensor none = scores.detach().eq(least).all(-1, /*keepdim=*/true);
  at::Tensor shares = at::softmax(scores.masked_fill(none, 0), -1).masked_fill(none, 0);
  if (dropout > 0) shares = at::dropout(shares, dropout, /*train=*/true);
  return at::matmul(shares, heads_of_q(v));
}

}  // namespace

void add_script_operators() {
  static const bool added = [] {
    if (c10::Dispatcher::singleton().findSchema({kAttention, ""})) return false;
    static torch::Library library(torch::Library::FRAGMENT, "aten", {}, __FILE__, __LINE__);
    library.def(
        "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool "
        "enable_gqa=False) -> Tensor",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(attention)));
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace hanse
