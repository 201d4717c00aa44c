#include "hanse/protocol/extrapolation.hpp"

#include <algorithm>
#include <cmath>

#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class Extrapolation final : public RoundPart {
 public:
  Extrapolation(int64_t n_trainable, double epsilon)
      : trainable_(to_index(n_trainable)), epsilon_(epsilon) {}

  // Clients that a time limit leaves out have no norm; the sum makes up for them, and so does this.
  void trained(const TrainedRound& round) override {
    double squares = 0, there = 0, all = 0;
    for (const Assignment& entry : round.plan.entries()) {
      const double norm = round.squared_norms[to_index(entry.position)];
      all += entry.coefficient;
      if (std::isnan(norm)) continue;
      there += entry.coefficient;
      squares += entry.coefficient * norm;
    }
    squares_ = there > 0 ? squares * all / there : 0;
  }

  bool reads(UpdateSum& sum, std::span<float> rows) override {
    sum.take(rows);
    const std::span<float> update = rows.first(std::min(trainable_, rows.size()));
    double mean = 0;
    for (const float value : update)
      mean += static_cast<double>(value) * static_cast<double>(value);
    factor_ = extrapolation(squares_, mean, epsilon_);
    for (float& value : update) value *= static_cast<float>(factor_);
    return true;
  }

  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] { return Metrics{{"extrapolation", factor_}}; });
  }

 private:
  std::size_t trainable_;
  double epsilon_;
  double squares_ = 0, factor_ = 1;
};

}  // namespace

double extrapolation(double squares, double mean, double epsilon) {
  const double below = 2 * (mean + epsilon);
  return below > 0 ? std::max(1.0, squares / below) : 1;
}

std::unique_ptr<RoundPart> make_extrapolation(int64_t n_trainable, double epsilon) {
  return std::make_unique<Extrapolation>(n_trainable, epsilon);
}

}  // namespace hanse
