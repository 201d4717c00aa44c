#include "peer_mixture.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hanse {

PeerMixture::PeerMixture(ExpertRule& rule, int64_t nodes, bool in_place, RowMixer mix_rows)
    : rule_(rule),
      nodes_(static_cast<std::size_t>(nodes)),
      in_place_(in_place),
      mix_rows_(std::move(mix_rows)),
      weights_(nodes_ * nodes_),
      mixes_(nodes_, 1),
      mixed_(nodes_, 0) {
  std::vector<int64_t> all(nodes_);
  std::iota(all.begin(), all.end(), int64_t{0});
  weigh(all);
}

void PeerMixture::weigh(std::span<const int64_t> participants) {
  rule_.weigh(participants, weights_);
}

double PeerMixture::weight(int64_t node, int64_t peer) const {
  return weights_[static_cast<std::size_t>(node) * nodes_ + static_cast<std::size_t>(peer)];
}

void PeerMixture::mix(std::vector<float>& gamma, std::vector<float>& theta) {
  const auto n = static_cast<int64_t>(nodes_);
  const std::size_t width = theta.size() / nodes_;
  switch (rule_.exchange()) {
    case Exchange::kNone: std::swap(theta, gamma); return;
    case Exchange::kMean: {
      const auto first = std::span(theta).first(width);
      mix_rows_(std::span(weights_).first(nodes_), gamma, n, first);
      for (std::size_t node = 1; node < nodes_; ++node) {
        std::copy(first.begin(), first.end(),
                  theta.begin() + static_cast<std::ptrdiff_t>(node * width));
      }
      mixed_.assign(nodes_, 1);
      return;
    }
    case Exchange::kGradients: return;  // nothing is mixed
    case Exchange::kAll: {
      mixed_ = mixes_;
      if (in_place_) return mix_in_place(gamma, theta);
      auto shares = weights_;
      for (std::size_t i = 0; i < nodes_; ++i) {
        if (mixes_[i]) continue;
        std::fill_n(shares.begin() + static_cast<std::ptrdiff_t>(i * nodes_), nodes_, 0.0);
        shares[i * nodes_ + i] = 1;
      }
      mix_rows_(shares, gamma, n, theta);
    }
  }
}

void PeerMixture::mix_in_place(std::span<const float> gamma, std::span<float> theta) {
  const std::size_t width = theta.size() / nodes_;
  std::vector<float> mixed(width);
  std::copy(gamma.begin(), gamma.end(), theta.begin());
  for (std::size_t i = 0; i < nodes_; ++i) {
    if (!mixes_[i]) continue;
    const auto shares = std::span<const double>(weights_).subspan(i * nodes_, nodes_);
    mix_rows_(shares, theta, static_cast<int64_t>(nodes_), mixed);
    std::copy(mixed.begin(), mixed.end(), theta.subspan(i * width, width).begin());
  }
}

void PeerMixture::visit(StateFields& fields) {
  fields.fixed("memory", rule_.memory());
  fields.fixed("weights", weights_);
  fields.fixed("mixes", mixes_);
}

}  // namespace hanse
