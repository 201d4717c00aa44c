#include "hanse/client/simulated_update.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/random.hpp"
#include "hanse/base/simulated_time.hpp"

namespace hanse {

namespace {

class SimulatedUpdate final : public LocalUpdate {
 public:
  SimulatedUpdate(std::unique_ptr<LocalUpdate> inner, const Federation& federation, double sample_s)
      : LocalUpdate(inner->state_blocks(), inner->steps()),
        inner_(std::move(inner)),
        federation_(federation),
        sample_s_(sample_s) {}

  int64_t control_width() const override { return inner_->control_width(); }
  int64_t sent_values(int64_t round, int64_t client, const ParameterLayout& layout) const override {
    return inner_->sent_values(round, client, layout);
  }
  bool control_returns() const override { return inner_->control_returns(); }
  int64_t control_block() const override { return inner_->control_block(); }
  bool sends_direction() const override { return inner_->sends_direction(); }
  bool counts_steps() const override { return inner_->counts_steps(); }
  bool finds_squares() const override { return inner_->finds_squares(); }
  double feedback_scale(int64_t round, int64_t samples, int64_t made) const override {
    return inner_->feedback_scale(round, samples, made);
  }

  ClientOutcome train(const ClientTask& task) override {
    const int64_t samples =
        samples_processed(steps().work(), federation_.train(task.client).size());
    pass_time(sample_s_ * static_cast<double>(samples));
    RandomStream stream(task.seed, Purpose::kSimulated, static_cast<uint64_t>(task.key()),
                        static_cast<uint64_t>(task.client));
    const double loss = 1 + stream.uniform();
    if (sends_direction()) std::fill(task.row.begin(), task.row.end(), 0.0F);
    move(stream, task.row);
    if (control_returns()) {
      move(stream, task.control_change);
    } else {  // counts the client
      std::fill(task.control_change.begin(), task.control_change.end(), 1.0F);
    }
    for (int64_t last = control_block() - 1; last >= 0 && last < control_width();
         last += control_block()) {
      task.control_change[static_cast<std::size_t>(last)] = 1;
    }
    return {.loss = loss,
            .samples = samples,
            .rate = 1,
            .squares = loss * loss * static_cast<double>(samples)};
  }

 private:
  // Two entries a draw.
  static void move(RandomStream& stream, std::span<float> row) {
    constexpr float kUnit = 0x1p-41F;
    for (std::size_t i = 0; i < row.size(); i += 2) {
      const uint64_t bits = stream.next();
      row[i] += kUnit * static_cast<float>(static_cast<int32_t>(bits));
      if (i + 1 < row.size()) {
        row[i + 1] += kUnit * static_cast<float>(static_cast<int32_t>(bits >> 32));
      }
    }
  }

  std::unique_ptr<LocalUpdate> inner_;
  const Federation& federation_;
  double sample_s_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_simulated_update(std::unique_ptr<LocalUpdate> inner,
                                                   const Federation& federation, double sample_s) {
  return std::make_unique<SimulatedUpdate>(std::move(inner), federation, sample_s);
}

}  // namespace hanse
