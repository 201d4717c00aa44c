#include "online/peers.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

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

std::vector<RowPart> peer_steps(const Model& model) {
  const RowPart last = row_parts(model.layout(), true).back();
  if (last.begin == 0) return {last};
  return {{0, last.begin}, last};
}

PeerGradients::PeerGradients(Model& model, int64_t nodes, RowPart part)
    : model_(model),
      nodes_(nodes),
      part_(part),
      sum_(nodes * part.size(), nodes, Reduction::kExact),
      gradient_(to_index(model.n_params())) {}

void PeerGradients::add(int64_t node, const Batch& batch, std::span<const float> theta,
                        std::span<const double> weights, const RandomStream& noise) {
  const auto entries =
      std::span<const float>(gradient_).subspan(to_index(part_.begin), to_index(part_.size()));
  for (int64_t l = 0; l < nodes_; ++l) {
    RandomStream same = noise;
    const auto row = theta.subspan(to_index(l) * gradient_.size(), gradient_.size());
    model_.loss_and_gradient(row, batch, same, gradient_);
    const double weight = weights[to_index(l * nodes_ + node)];
    if (sum_.add(entries, weight, l * part_.size()).in_range) continue;
    throw InvalidArgument(
        fmt::format("the gradient of model {} is not finite or above {:.3g}", l, sum_.limit()), "",
        "a smaller online.lr may help");
  }
}

void PeerGradients::step(Communicator& comm, double lr, std::span<float> theta) {
  const std::size_t width = to_index(part_.size());
  std::vector<float> sums(to_index(nodes_) * width);
  sum_.reduce(comm, 0);
  if (comm.rank() == 0) sum_.take(sums);
  comm.bcast(std::span(sums), 0);
  const auto rate = static_cast<float>(lr);
  for (std::size_t l = 0; l < to_index(nodes_); ++l) {
    float* entries = &theta[l * gradient_.size() + to_index(part_.begin)];
    for (std::size_t k = 0; k < width; ++k) entries[k] -= rate * sums[l * width + k];
  }
}

}  // namespace hanse
