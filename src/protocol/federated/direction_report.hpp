// What the rounds of a rule that works on inner products have to tell.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

class DirectionReport {
 public:
  static constexpr int64_t kMostClients = 100;  // participants of a round in directions.csv

  // Columns of rounds.csv, and the last round's values. squared_norm: |x|^2 of the step before
  // `scale`; ridge: added to the Gram matrix's diagonal; scale: the share of x that was taken;
  // dropped: participants whose update was zero; conflicts: participants whose loss x does not
  // lower, to first order; angle_max: degrees between x and the update farthest from it.
  static std::vector<std::string> columns();
  std::vector<double> values() const { return values_; }

  // A round: the Gram matrices [L, K, K], the coefficients [L, K] without `scale`, and the rates
  // [K] or none, in the order of `clients`.
  void add(int64_t round, std::span<const int64_t> clients, std::span<const double> gram,
           std::span<const double> rates, const Mix& mix);
  // Only this share of the last round's step was taken.
  void shorten(double share) { values_[kScale] *= share; }
  // A round without a step.
  void skip();

  // The lines of directions.csv since the last call: round, client, weight, rate, angle.
  std::vector<TableLines> take_lines();

 private:
  enum Value { kSquaredNorm, kRidge, kScale, kDropped, kConflicts, kAngleMax, kValues };

  std::vector<double> values_ = std::vector<double>(kValues);
  std::string lines_;
};

}  // namespace hanse
