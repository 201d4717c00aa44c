#include "part_step.hpp"

#include "hanse/base/index.hpp"
#include "layers/dropout.hpp"

namespace hanse {

AdapterFactors AdapterDropout::drop(const PartAdapter& place, AdapterFactors factors, double share,
                                    RandomStream& noise) {
  if (place.use == MatrixUse::kEmbedding) return factors;
  const bool by_rows = place.use == MatrixUse::kTransposed;
  float* mask = grow(mask_, by_rows ? place.out : place.in);
  draw_mask(share, noise, {mask, to_index(by_rows ? place.out : place.in)});
  const int64_t rows = by_rows ? place.out : place.rank, columns = by_rows ? place.rank : place.in;
  const float* from = by_rows ? factors.b : factors.a;
  float* to = grow(dropped_, rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      to[i * columns + j] = mask[by_rows ? i : j] * from[i * columns + j];
    }
  }
  (by_rows ? factors.b : factors.a) = to;
  return factors;
}

void AdapterDropout::mask(const PartAdapter& place, float* da, float* db) const {
  const bool by_rows = place.use == MatrixUse::kTransposed;
  if (mask_.empty() || (by_rows ? db : da) == nullptr) return;
  if (by_rows) {
    for (int64_t i = 0; i < place.b_size(); ++i) db[i] *= mask_[to_index(i / place.rank)];
  } else {
    for (int64_t i = 0; i < place.a_size(); ++i) da[i] *= mask_[to_index(i % place.in)];
  }
}

PartStep::PartStep(const std::vector<PartTensor>& trained, const std::vector<PartAdapter>& adapters)
    : adapters_(adapters), gradients_(adapters.size()) {
  for (const PartTensor& tensor : trained) {
    pieces_.push_back({tensor.whole, tensor.whole + tensor.size, tensor.own, nullptr});
  }
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const int64_t begin = adapters[i].weight;
    pieces_.push_back({begin, begin + adapters[i].size(), 0, &gradients_[i]});
  }
  std::ranges::sort(pieces_, {}, &Piece::begin);
}

void PartStep::start(const std::vector<AdapterFactors>& factors, const GradientTarget& target) {
  target_ = target;
  for (std::size_t i = 0; i < adapters_.size(); ++i) {
    gradients_[i].start(adapters_[i], factors[i], {adapters_[i].a.moves, adapters_[i].b.moves});
  }
}

void PartStep::finish(const std::vector<AdapterDropout>& dropouts) {
  for (std::size_t i = 0; i < adapters_.size(); ++i) {
    const PartAdapter& place = adapters_[i];
    dropouts[i].mask(place, place.a.moves ? gradients_[i].a() : nullptr,
                     place.b.moves ? gradients_[i].b() : nullptr);
    if (place.a.moves) target_.add(place.a.at, gradients_[i].a(), place.a_size());
    if (place.b.moves) target_.add(place.b.at, gradients_[i].b(), place.b_size());
  }
}

bool PartStep::wants(const Piece& piece) const {
  if (piece.adapter == nullptr) return target_.wants(piece.own);
  const PartAdapter& place = adapters_[to_index(piece.adapter - gradients_.data())];
  const auto is_wanted = [&](const FactorPlace& factor) {
    return factor.moves && target_.wants(factor.at);
  };
  return is_wanted(place.a) || is_wanted(place.b);
}

bool PartStep::take(const WeightGradient& product) {
  if (!wants(product.offset)) return true;
  const auto piece = from(product.offset);
  if (piece->adapter == nullptr) return false;
  piece->adapter->add(product);
  return true;
}

void PartStep::apply(int64_t offset, const float* gradient, int64_t size) {
  const int64_t end = offset + size;
  for (auto piece = from(offset); piece != pieces_.end() && piece->begin < end; ++piece) {
    const int64_t first = std::max(offset, piece->begin), last = std::min(end, piece->end);
    const float* values = gradient + (first - offset);
    if (piece->adapter != nullptr) {
      piece->adapter->add(first - piece->begin, values, last - first);
    } else {
      target_.add(piece->own + first - piece->begin, values, last - first);
    }
  }
}

}  // namespace hanse
