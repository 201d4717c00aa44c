// The sink that adds updates as integers of a private sum.
#include <cmath>

#include "federated/host_sink.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/protocol/private_training.hpp"

namespace hanse {

namespace {

class PrivateSink final : public HostSink {
 public:
  PrivateSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
              SharedRows& rows)
      : HostSink(parts, settings, second, rows), privacy_(*parts.privacy) {}

  void take(const TrainedClient& one, const TakenNote& note) override {
    const DeclaredTime part_of_training;
    const double start_s = clock_.now_s();
    const std::span<float> update = row();
    for (std::size_t i = 0; !one.is_update && i < update.size(); ++i) update[i] -= origin_[i];
    TrainedClient heard = one;  // whether a run goes on must not hang on a single client
    if (!std::isfinite(one.outcome.loss)) heard.outcome.loss = 0;
    const FoldResult folded = privacy_.take(one.client, one.position, update, sum_);
    restart();
    note(heard, folded, clock_.now_s() - start_s);
  }
  void finish(const TakenNote&) override {}

  ExchangeReport hand_over(std::span<float> model, const SumStep& step) override {
    const ExchangeReport done = HostSink::hand_over(model, step);
    privacy_.finish();
    return done;
  }

  std::vector<double> gram(int64_t, std::span<const int64_t>, ClientStateStore*) override {
    return {};
  }
  int64_t combine(std::span<const double>, int64_t) override { return -1; }
  void drop() override {}

 private:
  void open_sum() override { privacy_.begin(sum_); }
  void close_sum() override { privacy_.close(sum_); }
  void read_sum(std::span<float> rows) override { privacy_.read(sum_, rows); }

  PrivateTraining& privacy_;
};

}  // namespace

std::unique_ptr<HostSink> make_private_sink(const RunnerParts& parts,
                                            const FederatedSettings& settings, int64_t second,
                                            SharedRows& rows) {
  return std::make_unique<PrivateSink>(parts, settings, second, rows);
}

}  // namespace hanse
