// What a round reports: its times and bytes, and the columns made of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/clock.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// Time and bytes of a round.
class RoundAccount {
 public:
  // `moved_bytes` here and below: ClientRunner::bytes_moved().
  RoundAccount() = default;
  RoundAccount(const Clock& clock, double comm_s, int64_t moved_bytes)
      : clock_(&clock),
        start_s_(clock.now_s()),
        comm_before_s_(comm_s),
        before_bytes_(moved_bytes) {}

  double start_s() const { return start_s_; }
  double seconds() const { return clock_->now_s() - start_s_; }  // so far
  // Seconds of communication since the start, without waiting for others to end their training.
  double comm_s(double comm_s) const { return comm_s - comm_before_s_ - wait_s; }

  // Bytes sent by this rank in the round so far.
  int64_t own_bytes(int64_t moved_bytes) const { return moved_bytes - before_bytes_; }
  // Rank 0: bytes sent by the others when they last told; what follows is rooted at rank 0.
  void set_others_bytes(int64_t bytes) { others_bytes_ = bytes; }
  // Bytes sent by all ranks. Rank 0.
  int64_t bytes_sent(int64_t moved_bytes) const { return own_bytes(moved_bytes) + others_bytes_; }

  // Columns of rounds.csv.
  Metrics numbers() const;

  // Seconds of this rank:
  double broadcast_s = 0;
  double training_s = 0;
  double wait_s = 0;
  double reduce_s = 0;
  double step_s = 0;
  double draw_s = 0;  // these three without communication
  double losses_s = 0;
  double products_s = 0;
  int64_t broadcast_bytes = 0;
  int64_t reduce_bytes = 0;
  int64_t update_bytes = 0;  // of the participants' updates, each on a link of its own

 private:
  const Clock* clock_ = nullptr;
  double start_s_ = 0;
  double comm_before_s_ = 0;
  int64_t before_bytes_ = 0;
  int64_t others_bytes_ = 0;  // what the other ranks count of the round
};

// What the rounds of a rule that works on inner products did.
class DirectionReport {
 public:
  DirectionReport() { skip(); }

  static constexpr int64_t kMostClients = 100;  // participants of a round in directions.csv

  // Columns of rounds.csv, of the last round. squared_norm: |x|^2 of the step before
  // `scale`; ridge: added to the Gram matrix's diagonal; scale: the share of x that was taken;
  // dropped: participants whose update was zero; conflicts: participants whose loss x does not
  // lower, to first order; angle_max: degrees between x and the update farthest from it.
  Metrics numbers() const;

  // Adds a round: the Gram matrices [L, K + A, K + A], the coefficients [L, K + A] without `scale`,
  // and the rates [K] or none, in the order of the K `clients`; no line tells of the A absent ones.
  void add(int64_t round, std::span<const int64_t> clients, std::span<const double> gram,
           std::span<const double> rates, const Mix& mix);
  // Notes that only this share of the last round's step was taken.
  void shorten(double share) { scale_ *= share; }
  // Notes a round without a step.
  void skip();

  // The lines of directions.csv since the last call: round, client, weight, rate, angle.
  std::vector<TableLines> take_lines();

 private:
  double squared_norm_, ridge_, scale_, dropped_, conflicts_, angle_max_;
  std::string lines_;
};

}  // namespace hanse
