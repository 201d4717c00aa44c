#include "hanse/rules/aggregation/fedavg.hpp"

namespace hanse {

namespace {

class FedAvg final : public Aggregator {
 public:
  FedAvg(const std::string& weights, Estimator estimator, int64_t clients)
      : by_samples_(weights == "samples"),
        estimator_(estimator),
        equal_share_(1.0 / static_cast<double>(clients)) {}

  AggregatorNeeds needs() const override { return {.sizes = by_samples_}; }

  Mix mix(const RoundReport& report) override {
    if (by_samples_) return {estimate(report.lambda, report.draw_weights, estimator_)};
    const std::vector<double> shares(report.clients.size(), equal_share_);
    return {estimate(shares, report.draw_weights, estimator_)};
  }

 private:
  bool by_samples_;
  Estimator estimator_;
  double equal_share_;
};

}  // namespace

std::unique_ptr<Aggregator> make_fedavg(const std::string& weights, Estimator estimator,
                                        int64_t clients) {
  return std::make_unique<FedAvg>(weights, estimator, clients);
}

}  // namespace hanse
