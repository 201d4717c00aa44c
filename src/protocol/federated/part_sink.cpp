// The sinks that ask a part of the round how updates enter the sum.
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
  RoundPart& taker_;
};

// Norms are those of the entries that enter the sum, buffers aside.
class PartedSink final : public HostSink {
 public:
  PartedSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
             SharedRows& rows, RoundPart& weigher)
      : HostSink(parts, settings, second, rows), weigher_(weigher) {}

  void take(const TrainedClient& one, const TakenNote& note) override {
    const DeclaredTime part_of_training;
    const double start_s = clock_.now_s();
    FoldResult folded{.in_range = one.in_range};
    for (const auto& [part, coefficient] :
         weigher_.parts_of({one.client, one.position, one.coefficient, {}})) {
      const auto begin = to_index(part.begin), size = to_index(part.size());
      const auto origin = one.is_update ? std::span<const float>() : origin_.subspan(begin, size);
      const FoldResult added =
          sum_.fold(std::span(row()).subspan(begin, size), origin, coefficient, part.begin);
      folded.in_range = folded.in_range && added.in_range;
      if (begin < sent_.trained) folded.squared_norm += added.squared_norm;
    }
    restart();
    note(one, folded, clock_.now_s() - start_s);
  }
  void finish(const TakenNote&) override {}

 private:
  RoundPart& weigher_;
};

}  // namespace

std::unique_ptr<HostSink> make_parted_sink(const RunnerParts& parts,
                                           const FederatedSettings& settings, int64_t second,
                                           SharedRows& rows, RoundPart& weigher) {
  return std::make_unique<PartedSink>(parts, settings, second, rows, weigher);
}

std::unique_ptr<HostSink> make_part_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows, RoundPart& taker) {
  return std::make_unique<PartSink>(parts, settings, second, rows, taker);
}

}  // namespace hanse
