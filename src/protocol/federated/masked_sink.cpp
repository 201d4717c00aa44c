// FedHEAL's sink: only the entries of an update count that its client moves steadily.
#include <algorithm>

#include "federated/kept_sink.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/sign_memory.hpp"

namespace hanse {

namespace {

class MaskedSink final : public KeptSink {
 public:
  MaskedSink(const RunnerParts& parts, const FederatedSettings& settings, int64_t second,
             SharedRows& rows)
      : KeptSink(parts, settings, second, rows),
        signs_(parts.model.layout(), parts.rule.sign_share.value()) {}

 private:
  double statistic(const TrainedClient& one, std::span<const float> update) const override {
    return signs_.distance(update, one.state);
  }

  // sum p_i m_i u_i, and behind it sum p_i m_i.
  int64_t add(std::span<const double> coefficients, int64_t) override {
    std::vector<float> masked(to_index(kSinkBlock)), mask(to_index(kSinkBlock));
    const auto width = static_cast<int64_t>(sent_.size);
    int64_t broken = -1;
    for (int64_t begin = 0; begin < width; begin += kSinkBlock) {
      const auto length = to_index(std::min(kSinkBlock, width - begin));
      const auto entries = std::span(masked).first(length);
      const auto counted = std::span(mask).first(length);
      for (std::size_t i = 0; i < taken().size(); ++i) {
        const auto& [position, state] = taken()[i];
        const double weight = coefficients[to_index(position)];
        signs_.mask(update(i), state, begin, entries, counted);
        const bool fits = sum_.add(entries, weight, begin).in_range &&
                          sum_.add(counted, weight, width + begin).in_range;
        if (!fits) broken = position;
      }
    }
    return broken;
  }

  void remember(std::span<const float> update, std::span<float> state) const override {
    signs_.remember(update, state);
  }

  // Divides the updates by the weights; 0 where these are 0.
  void read_sum(std::span<float> rows) override {
    HostSink::read_sum(rows);
    const auto sum = rows.first(sent_.size), weights = rows.subspan(sent_.size);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = weights[i] > 0 ? sum[i] / weights[i] : 0.0F;
    }
  }

  SignMemory signs_;
};

}  // namespace

std::unique_ptr<HostSink> make_masked_sink(const RunnerParts& parts,
                                           const FederatedSettings& settings, int64_t second,
                                           SharedRows& rows) {
  return std::make_unique<MaskedSink>(parts, settings, second, rows);
}

}  // namespace hanse
