#include "peer_gradients.hpp"

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

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
