#include "federated/kept_sink.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "hanse/client/sign_memory.hpp"

namespace hanse {

std::vector<StateBlock> rule_state_blocks(const AggregatorNeeds& needs,
                                          const ParameterLayout& layout) {
  if (needs.sign_share) return SignMemory(layout, *needs.sign_share).state_blocks();
  if (needs.last_updates) return {{"last_update", layout.n_params()}};
  return {};
}

KeptSink::KeptSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
                   SharedRows& rows)
    : HostSink(parts, settings, second, rows),
      layers_(row_parts(parts.model.layout(), parts.rule.layers)),
      blocks_(rule_state_blocks(parts.rule, parts.model.layout())),
      exchange_(parts.comm, layers_) {}

void KeptSink::take(const TrainedClient& one, const TakenNote& note) {
  FoldResult found = keep(one.is_update);
  found.in_range = found.in_range && one.in_range;
  kept_.push_back({one.position, one.state});
  TrainedClient told = one;
  told.outcome.rate = statistic(one, updates_[kept_.size() - 1]);
  note(told, found, 0);
}

// Makes row() the update, and then the origin. The norm is that of the trained entries.
FoldResult KeptSink::keep(bool is_update) {
  const std::size_t used = kept_.size();
  if (used == updates_.size()) updates_.emplace_back(sent_.size);
  AlignedFloats& kept = updates_[used];
  std::swap(row(), kept);
  double trained = 0, buffers = 0;
  for (std::size_t begin = 0; begin < kept.size();) {
    const std::size_t end = begin < sent_.trained ? sent_.trained : kept.size();
    const std::size_t length = std::min(to_index(kSinkBlock), end - begin);
    const auto update = std::span(kept).subspan(begin, length);
    for (std::size_t i = 0; !is_update && i < length; ++i) update[i] -= origin_[begin + i];
    (begin < sent_.trained ? trained : buffers) += inner_product(update, update);
    std::copy_n(&origin_[begin], length, &row()[begin]);
    begin += length;
  }
  return {.squared_norm = trained, .in_range = std::isfinite(trained + buffers)};
}

std::vector<OwnedRow> KeptSink::rows() const {
  std::vector<OwnedRow> rows;
  for (std::size_t i = 0; i < kept_.size(); ++i) rows.push_back({kept_[i].position, updates_[i]});
  rows.insert(rows.end(), further_.begin(), further_.end());
  return rows;
}

std::vector<double> KeptSink::gram(int64_t k, std::span<const int64_t> absent,
                                   ClientStateStore* states) {
  const int64_t first = k - std::ssize(absent);
  const std::size_t width = to_index(width_of(blocks_));
  for (std::size_t i = 0; i < absent.size(); ++i) {
    if (!states->contains(absent[i])) continue;  // another rank has it
    const std::span<const float> state = states->existing_row(absent[i]).last(width);
    further_.push_back(
        {first + static_cast<int64_t>(i), state_block(blocks_, state, "last_update")});
  }
  return exchange_.gram(this->rows(), k);
}

int64_t KeptSink::combine(std::span<const double> coefficients, int64_t k) {
  const int64_t broken = add(coefficients, k);
  for (std::size_t i = 0; i < kept_.size(); ++i) remember(updates_[i], kept_[i].state);
  drop();
  return broken;
}

// Adds block by block, for the sum is wider than the rows.
int64_t KeptSink::add(std::span<const double> coefficients, int64_t k) {
  const auto rows = this->rows();
  int64_t broken = -1;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const auto weights = coefficients.subspan(layer * to_index(k), to_index(k));
    for (int64_t begin = layers_[layer].begin; begin < layers_[layer].end; begin += kSinkBlock) {
      const auto length = to_index(std::min(kSinkBlock, layers_[layer].end - begin));
      for (const OwnedRow& row : rows) {
        const auto part = row.values.subspan(to_index(begin), length);
        const double weight = weights[to_index(row.position)];
        if (weight != 0 && !sum_.add(part, weight, begin).in_range) broken = row.position;
      }
    }
  }
  return broken;
}

// An entry has one addend, whatever the participants are.
bool KeptSink::add_entries(int64_t begin, std::span<const double> values) {
  const double limit = UpdateSum::limit(1);
  const bool fits = std::ranges::all_of(values, [&](double one) { return std::abs(one) <= limit; });
  if (sum_.is_exact()) {
    std::vector<int64_t> units;
    for (const double one : values)
      units.push_back(fits ? std::llrint(one * UpdateSum::kUnits) : 0);
    sum_.add_integers(units, begin);
  } else {
    sum_.add(std::vector<float>(values.begin(), values.end()), 1, begin);
  }
  return fits;
}

void KeptSink::remember(std::span<const float> update, std::span<float> state) const {
  if (!blocks_.empty()) std::copy(update.begin(), update.end(), state.begin());
}

void KeptSink::drop() {
  kept_.clear();
  further_.clear();
}

std::unique_ptr<HostSink> make_kept_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows) {
  return std::make_unique<KeptSink>(parts, settings, second, rows);
}

}  // namespace hanse
