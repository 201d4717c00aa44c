#include "hanse/client/ranked_adapters.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/client/passes.hpp"

namespace hanse {

namespace {

// A factor of an adapter of rank r, in the row: A [r, width], or B [width, r].
struct Factor {
  int64_t begin, rank, width;
  bool is_a;
};

std::vector<Factor> factors_in(const ParameterLayout& layout) {
  std::vector<Factor> factors;
  for (const ParameterSlot& slot : layout.slots()) {
    const bool is_a = slot.name.ends_with(".lora_A");
    if (!is_a && !slot.name.ends_with(".lora_B")) continue;
    factors.push_back({slot.offset, slot.shape[is_a ? 0 : 1], slot.shape[is_a ? 1 : 0], is_a});
  }
  return factors;
}

// Each pass starts from the received model without the rows that the client has not.
std::vector<Pass> from_own_rank(std::vector<Pass> passes) {
  for (Pass& pass : passes) pass.moves_start = true;
  return passes;
}

class RankedAdapters final : public PassUpdate {
 public:
  RankedAdapters(std::unique_ptr<LocalUpdate> inner, std::vector<int64_t> ranks,
                 const ParameterLayout& layout)
      : RankedAdapters(dynamic_cast<PassUpdate&>(*inner), std::move(ranks), layout) {
    owned_ = std::move(inner);
  }

  bool trains_side_by_side() const override { return inner_.trains_side_by_side(); }
  int64_t sent_values(int64_t round, int64_t client, const ParameterLayout& layout) const override {
    int64_t sent = inner_.sent_values(round, client, layout);
    for (const Factor& factor : factors_) {
      sent -= (factor.rank - ranks_[to_index(client)]) * factor.width;
    }
    return sent;
  }

  void before(std::size_t pass, const ClientTask& task, std::span<float> pull) override {
    const int64_t rank = ranks_[to_index(task.client)];
    for (const Factor& factor : factors_) {
      if (!factor.is_a) continue;
      const auto a = task.row.subspan(to_index(factor.begin), to_index(factor.rank * factor.width));
      std::ranges::fill(a.subspan(to_index(rank * factor.width)), 0.0F);
    }
    inner_.before(pass, task, pull);
  }

  bool after(std::size_t pass, const ClientTask& task, std::span<const float> start,
             std::span<const float> received) override {
    return inner_.after(pass, task, start, received);
  }

 private:
  RankedAdapters(PassUpdate& inner, std::vector<int64_t> ranks, const ParameterLayout& layout)
      : PassUpdate(inner, from_own_rank(inner.passes()), {}),
        inner_(inner),
        ranks_(std::move(ranks)),
        factors_(factors_in(layout)) {}

  std::unique_ptr<LocalUpdate> owned_;
  PassUpdate& inner_;  // the same
  std::vector<int64_t> ranks_;
  std::vector<Factor> factors_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_ranked(std::unique_ptr<LocalUpdate> inner,
                                         std::vector<int64_t> ranks,
                                         const ParameterLayout& layout) {
  return std::make_unique<RankedAdapters>(std::move(inner), std::move(ranks), layout);
}

}  // namespace hanse
