#include "hanse/comm/communicator.hpp"

#include <thread>

#include "hanse/base/clock.hpp"

namespace hanse {

ExchangeTimes Communicator::exchange_impl(Buffer data, Buffer result, const ExchangeStep& step) {
  ExchangeTimes times;
  {
    const PhaseTimer timer(times.reduce_s);
    if (size() > 1) reduce_impl(data, ReduceOp::kSum, 0);
  }
  {
    const PhaseTimer timer(times.step_s);
    if (rank() == 0) step(0, data.count);
  }
  {
    const PhaseTimer timer(times.broadcast_s);
    if (size() > 1) bcast_impl(result, 0);
  }
  return times;
}

void Communicator::wait_until(const std::function<bool()>& done) {
  const PhaseTimer timer(seconds_);
  while (!done()) std::this_thread::yield();
}

std::string bcast_text(Communicator& comm, const std::string& text, int root) {
  auto length = static_cast<int64_t>(text.size());
  comm.bcast(std::span(&length, 1), root);
  std::string result = text;
  result.resize(static_cast<std::size_t>(length));
  comm.bcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

}  // namespace hanse
