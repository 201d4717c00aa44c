#include "hanse/comm/communicator.hpp"

#include <algorithm>
#include <new>
#include <thread>

#include "hanse/base/aligned.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/scope.hpp"

namespace hanse {

namespace {

class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}

  std::unique_ptr<Communicator> split(int64_t) override { return make_single_communicator(); }

  std::shared_ptr<std::byte> allocate_shared(int64_t bytes) override {
    try {
      return zeroed_lines(std::max<int64_t>(bytes, 1));
    } catch (const std::bad_alloc&) {
      throw IoError("no room for shared memory", std::to_string(bytes) + " bytes");
    }
  }

 private:
  void bcast_impl(Buffer, int) override {}
  void reduce_impl(Buffer, ReduceOp, int) override {}
  void allgatherv_impl(Buffer, std::span<const int64_t>) override {}
  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int,
                                      std::vector<int64_t>& bytes_of) override {
    bytes_of.assign(1, static_cast<int64_t>(data.size()));
    return {data.begin(), data.end()};
  }
  void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t>,
                      std::span<std::byte> in, std::span<const int64_t>, std::size_t) override {
    std::copy(out.begin(), out.end(), in.begin());
  }
  [[noreturn]] static void refuse() { throw CommError("there is no other rank", 0, 0); }
  void send_impl(std::span<const std::byte>, int) override { refuse(); }
  int recv_impl(std::span<std::byte>, int) override { refuse(); }
};

}  // namespace

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

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace hanse
