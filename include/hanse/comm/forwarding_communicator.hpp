// A communicator that hands everything on to another; subclasses change what they need.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "hanse/comm/communicator.hpp"

namespace hanse {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int64_t colour) override { return inner_.split(colour); }
  std::shared_ptr<std::byte> allocate_shared(int64_t bytes) override {
    return inner_.allocate_shared(bytes);
  }
  std::shared_ptr<std::byte> allocate_row(ElementType type, int64_t count) override {
    return inner_.allocate_row(type, count);
  }
  void set_timeout(double seconds, const std::string& way_on) override {
    inner_.set_timeout(seconds, way_on);
  }
  void enter_phase(const char* phase, int64_t round) override { inner_.enter_phase(phase, round); }

 protected:
  Communicator& inner() { return inner_; }

  void bcast_impl(Buffer buffer, int root) override {
    visit(buffer, [&](auto data) { inner_.bcast(data, root); });
  }
  void reduce_impl(Buffer buffer, ReduceOp op, int root) override {
    visit(buffer, [&](auto data) { inner_.reduce(data, op, root); });
  }
  ExchangeTimes exchange_impl(Buffer data, double unit, std::span<float> result,
                              const ExchangeStep& step) override {
    const auto count = static_cast<std::size_t>(data.count);
    if (data.type == ElementType::kFloat) {
      return inner_.exchange(std::span(static_cast<float*>(data.data), count), unit, result, step);
    }
    return inner_.exchange(std::span(static_cast<int64_t*>(data.data), count), unit, result, step);
  }
  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                      std::vector<int64_t>& bytes_of) override {
    return inner_.gatherv(data, root, &bytes_of);
  }
  void allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) override {
    visit(buffer, [&](auto data) { inner_.allgatherv(data, counts); });
  }
  void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                      std::span<std::byte> in, std::span<const int64_t> receives,
                      std::size_t width) override {
    inner_.alltoallv(out, in_bytes(sends, width), in, in_bytes(receives, width));
  }

  void send_impl(std::span<const std::byte> data, int to) override { inner_.send(data, to); }
  int recv_impl(std::span<std::byte> data, int from) override { return inner_.recv(data, from); }

  static std::vector<int64_t> in_bytes(std::span<const int64_t> counts, std::size_t width) {
    std::vector<int64_t> bytes(counts.begin(), counts.end());
    for (int64_t& count : bytes) count *= static_cast<int64_t>(width);
    return bytes;
  }

 private:
  // Calls f with the elements, in their type.
  template <class F>
  static void visit(Buffer buffer, F f) {
    const auto count = static_cast<std::size_t>(buffer.count);
    switch (buffer.type) {
      case ElementType::kInt64: return f(std::span(static_cast<int64_t*>(buffer.data), count));
      case ElementType::kDouble: return f(std::span(static_cast<double*>(buffer.data), count));
      case ElementType::kFloat: return f(std::span(static_cast<float*>(buffer.data), count));
      case ElementType::kByte: return f(std::span(static_cast<std::byte*>(buffer.data), count));
    }
  }

  Communicator& inner_;
};

}  // namespace hanse
