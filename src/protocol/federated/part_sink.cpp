// The sink that leaves it to a part of the round to add updates to the sum.
#include <cmath>

#include "federated/host_sink.hpp"
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

}  // namespace

std::unique_ptr<HostSink> make_part_sink(const RunnerParts& parts,
                                         const FederatedSettings& settings, int64_t second,
                                         SharedRows& rows, RoundPart& taker) {
  return std::make_unique<PartSink>(parts, settings, second, rows, taker);
}

}  // namespace hanse
