#include "hanse/comm/communicator.hpp"

#include <algorithm>
#include <thread>

#include "hanse/base/aligned.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/sum_elements.hpp"

namespace hanse {

ExchangeTimes Communicator::exchange_impl(Buffer data, double unit, std::span<float> result,
                                          const ExchangeStep& step) {
  ExchangeTimes times;
  {
    const Scope timer(times.reduce_s);
    if (size() > 1) reduce_impl(data, ReduceOp::kSum, 0);
  }
  const auto* first = static_cast<const std::byte*>(data.data);
  if (rank() == 0) {
    const Scope timer(times.step_s);
    const int64_t width = element_bytes(data.type), most = kPieceBytes / width;
    std::vector<float> part(static_cast<std::size_t>(std::min(most, data.count)));
    for (int64_t begin = 0; begin < data.count; begin += most) {
      const int64_t n = std::min(most, data.count - begin);
      take_elements(data.type, first + begin * width, n, unit, part.data());
      step(begin, std::span(part).first(static_cast<std::size_t>(n)));
    }
  }
  {
    const Scope timer(times.broadcast_s);
    bcast(result, 0);
  }
  return times;
}

std::shared_ptr<std::byte> Communicator::allocate_row(ElementType type, int64_t count) {
  return zeroed_lines(count * element_bytes(type));
}

void Communicator::wait_until(const std::function<bool()>& done) {
  const Scope timer(seconds_);
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
