// The sink that asks a part of the round how updates enter the sum.
#include <cmath>

#include "federated/host_sink.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

namespace {

class PartSink final : public HostSink {
 public:
  PartSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
           SharedRows& rows, RoundPart& taker)
      : HostSink(parts, settings, second, rows), taker_(taker) {}

  void take(const TrainedClient& one, const TakenNote& note) override {
    const DeclaredTime part_of_training;
    const double start_s = clock_.now_s();
    const auto parts = taker_.parts_of({one.client, one.position, one.coefficient, {}});
    if (!parts.empty()) {
      const FoldResult folded = fold(one, parts);
      restart();
      return note(one, folded, clock_.now_s() - start_s);
    }
    const std::span<float> update = row();
    for (std::size_t i = 0; !one.is_update && i < update.size(); ++i) update[i] -= origin_[i];
    TrainedClient heard = one;  // whether a run goes on must not hang on a single client
    if (!std::isfinite(one.outcome.loss)) heard.outcome.loss = 0;
    const FoldResult folded =
        taker_.take({one.client, one.position, one.coefficient, update}, sum_);
    restart();
    note(heard, folded, clock_.now_s() - start_s);
  }
  void finish(const TakenNote&) override {}

 private:
  // The norm is that of the entries that enter the sum, buffers aside.
  FoldResult fold(const TrainedClient& one, std::span<const WeighedPart> parts) {
    FoldResult folded{.in_range = one.in_range};
    for (const auto& [part, coefficient] : parts) {
      const auto begin = to_index(part.begin), size = to_index(part.size());
      const auto origin = one.is_update ? std::span<const float>() : origin_.subspan(begin, size);
      const FoldResult added =
          sum_.fold(std::span(row()).subspan(begin, size), origin, coefficient, part.begin);
      folded.in_range = folded.in_range && added.in_range;
      if (begin < sent_.trained) folded.squared_norm += added.squared_norm;
    }
    return folded;
  }

  RoundPart& taker_;
};

}  // namespace

std::unique_ptr<HostSink> make_part_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows, RoundPart& taker) {
  return std::make_unique<PartSink>(parts, settings, second, rows, taker);
}

}  // namespace hanse
