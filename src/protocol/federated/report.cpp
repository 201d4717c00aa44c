#include "federated/report.hpp"

#include <numeric>

namespace hanse {

void PhaseTimes::add(const ExchangeTimes& times) {
  seconds_[kReduce] += times.reduce_s;
  seconds_[kStep] += times.step_s;
  seconds_[kBroadcast] += times.broadcast_s;
}

void RoundAccount::merge(Communicator& comm, std::vector<double>& table, int64_t moved_bytes) {
  const auto entries = static_cast<std::ptrdiff_t>(table.size());
  table.resize(table.size() + static_cast<std::size_t>(comm.size()), Findings::kElsewhere);
  table[static_cast<std::size_t>(entries + comm.rank())] =
      static_cast<double>(moved_bytes - before_bytes_);
  comm.reduce(std::span(table), ReduceOp::kMax, 0);
  const double others = std::accumulate(table.begin() + entries + 1, table.end(), 0.0);
  if (comm.rank() == 0) others_bytes_ = static_cast<int64_t>(others);
  table.resize(static_cast<std::size_t>(entries));
}

std::vector<std::string> RoundAccount::columns() {
  return {"seconds_broadcast", "seconds_reduce", "seconds_step", "bytes_broadcast", "bytes_reduce"};
}

std::vector<double> RoundAccount::values() const {
  return {times[PhaseTimes::kBroadcast], times[PhaseTimes::kReduce], times[PhaseTimes::kStep],
          static_cast<double>(broadcast_bytes), static_cast<double>(reduce_bytes)};
}

}  // namespace hanse
