#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "hanse/base/scope.hpp"
#include "hanse/base/simulated_time.hpp"
#include "hanse/comm/cluster.hpp"
#include "hanse/comm/forwarding_communicator.hpp"

namespace hanse {

namespace {

class SimulatedCommunicator final : public ForwardingCommunicator {
 public:
  // `owned` is the inner one, or null where somebody else owns it.
  SimulatedCommunicator(Communicator& communicator, const Cluster& cluster,
                        std::unique_ptr<Communicator> owned = nullptr)
      : ForwardingCommunicator(communicator), cluster_(cluster), owned_(std::move(owned)) {}

  void barrier() override {
    together("barrier", 0, [&] {
      ForwardingCommunicator::barrier();
      return small_s(cluster_);
    });
  }

  std::unique_ptr<Communicator> split(int64_t colour) override {
    auto part = ForwardingCommunicator::split(colour);
    Cluster own = cluster_;
    own.ranks = part->size();
    own.hosts = colour == kByHost ? 1 : hosts_of(*part);
    Communicator& communicator = *part;
    return std::make_unique<SimulatedCommunicator>(communicator, own, std::move(part));
  }

  std::shared_ptr<std::byte> allocate_shared(int64_t bytes) override {
    const DeclaredTime still;
    return ForwardingCommunicator::allocate_shared(bytes);
  }

 private:
  // The number of the cluster's hosts on which the part's ranks lie.
  int64_t hosts_of(Communicator& part) {
    const DeclaredTime still;
    const auto size = static_cast<std::size_t>(part.size());
    std::vector<int64_t> hosts(size);
    hosts[static_cast<std::size_t>(part.rank())] = rank() / cluster_.ranks_a_host();
    part.allgatherv(std::span(hosts), std::vector<int64_t>(size, 1));
    return std::ssize(std::set(hosts.begin(), hosts.end()));
  }

  // Does `work`, which takes no simulated time, and returns when it would be done.
  template <class Work>
  void communicate(const char* name, int64_t bytes, Work work) {
    const Scope scope(name, -1, bytes, &seconds_);
    const DeclaredTime still;
    wait_until_simulated(work());
  }
  // An operation of all ranks at once: work() returns how long it would take.
  template <class Work>
  void together(const char* name, int64_t bytes, Work work) {
    communicate(name, bytes, [&] {
      std::array<double, 2> latest = {simulated_seconds(), 0};
      latest[1] = counted(work);
      inner().allreduce(std::span(latest), ReduceOp::kMax);
      return latest[0] + latest[1];
    });
  }
  // Counts what `work` sends, and returns what it returns.
  template <class Work>
  double counted(Work work) {
    const int64_t before = inner().bytes_moved();
    const double found = work();
    bytes_moved_ += inner().bytes_moved() - before;
    return found;
  }

  double message_s(const Buffer& buffer) const {
    const auto bytes = static_cast<double>(buffer.bytes());
    return bytes <= kPieceBytes ? collective_s(cluster_, bytes) : transfer_s(cluster_, bytes);
  }
  // Seconds of a message of `bytes` that each rank sends to, or gets from, all others.
  double spread_s(double bytes) const {
    const bool one_host = cluster_.hosts == 1;
    const auto sharing = static_cast<double>(one_host ? 1 : cluster_.ranks_a_host());
    return small_s(cluster_) +
           (size() == 1 ? 0
                        : bytes * sharing / (one_host ? cluster_.memory : cluster_.network).rate);
  }
  const Link& link_to(int rank_there) const {
    return cluster_.host_of(rank_there) == cluster_.host_of(rank()) ? cluster_.memory
                                                                    : cluster_.network;
  }

  void bcast_impl(Buffer buffer, int root) override {
    together("bcast", buffer.bytes(), [&] {
      ForwardingCommunicator::bcast_impl(buffer, root);
      return message_s(buffer);
    });
  }

  void reduce_impl(Buffer buffer, ReduceOp op, int root) override {
    together("reduce", buffer.bytes(), [&] {
      ForwardingCommunicator::reduce_impl(buffer, op, root);
      return message_s(buffer);
    });
  }

  // A short exchange is a reduction, the step and a broadcast.
  ExchangeTimes exchange_impl(Buffer data, double unit, std::span<float> result,
                              const ExchangeStep& step) override {
    const auto up = static_cast<double>(data.bytes());
    const auto down = static_cast<double>(result.size_bytes());
    if (up <= kPieceBytes) return Communicator::exchange_impl(data, unit, result, step);
    ExchangeTimes times;
    const auto timed_step = [&](int64_t begin, std::span<float> sum) {
      const OwnWork work;
      const Scope timer(times.step_s);
      step(begin, sum);
    };
    together("exchange", static_cast<int64_t>(up + down), [&] {
      ForwardingCommunicator::exchange_impl(data, unit, result, timed_step);
      times.reduce_s = transfer_s(cluster_, up);
      const double all_s = exchange_s(cluster_, up, down, times.step_s);
      times.broadcast_s = std::max(0.0, all_s - times.reduce_s - times.step_s);
      return all_s;
    });
    return times;
  }

  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                      std::vector<int64_t>& bytes_of) override {
    std::vector<std::byte> all;
    together("gatherv", std::ssize(data), [&] {
      all = ForwardingCommunicator::gatherv_impl(data, root, bytes_of);
      return spread_s(static_cast<double>(all.size()));
    });
    return all;
  }

  void allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) override {
    together("allgatherv", buffer.bytes(), [&] {
      ForwardingCommunicator::allgatherv_impl(buffer, counts);
      return spread_s(static_cast<double>(buffer.bytes()));
    });
  }

  void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                      std::span<std::byte> in, std::span<const int64_t> receives,
                      std::size_t width) override {
    together("alltoallv", std::ssize(out), [&] {
      ForwardingCommunicator::alltoallv_impl(out, sends, in, receives, width);
      return spread_s(static_cast<double>(std::max(out.size(), in.size())));
    });
  }

  // The time of its departure travels in front of the message.
  void send_impl(std::span<const std::byte> data, int to) override {
    communicate("send", std::ssize(data), [&] {
      const double gone_s =
          simulated_seconds() + static_cast<double>(data.size()) / link_to(to).rate;
      inner().send(std::span(&gone_s, 1), to);
      return counted([&] {
        ForwardingCommunicator::send_impl(data, to);
        return gone_s;
      });
    });
  }

  int recv_impl(std::span<std::byte> data, int from) override {
    communicate("recv", std::ssize(data), [&] {
      double gone_s = 0;
      from = inner().recv(std::span(&gone_s, 1), from);
      ForwardingCommunicator::recv_impl(data, from);
      return gone_s + link_to(from).latency_s;
    });
    return from;
  }

  Cluster cluster_;
  std::unique_ptr<Communicator> owned_;
};

}  // namespace

std::unique_ptr<Communicator> make_simulated_communicator(Communicator& inner,
                                                          const Cluster& cluster) {
  return std::make_unique<SimulatedCommunicator>(inner, cluster);
}

}  // namespace hanse
