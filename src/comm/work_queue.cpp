#include "hanse/comm/work_queue.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace hanse {

namespace {

struct Phase {
  int64_t items = 0;
  int64_t length = 1;

  int64_t pieces() const { return (items + length - 1) / length; }
  WorkQueue::Piece piece(int64_t i) const {
    return i < pieces() ? WorkQueue::Piece{i * length, std::min((i + 1) * length, items)}
                        : WorkQueue::Piece{};
  }
};

class SharedQueue final : public WorkQueue {
 public:
  SharedQueue(Communicator& host, int64_t takers)
      : memory_(host.allocate_shared(sizeof(std::atomic<int64_t>))),
        takers_(takers),
        base_(-takers) {
    static_assert(std::atomic<int64_t>::is_always_lock_free);
    counter_ = reinterpret_cast<std::atomic<int64_t>*>(memory_.get());
    if (host.rank() == 0) new (counter_) std::atomic<int64_t>(0);
    host.barrier();
  }

  void start(int64_t items, int64_t length) override {
    // In the phase before, every piece was claimed, and each taker found none once.
    base_ += phase_.pieces() + takers_;
    phase_ = {items, length};
  }

  Piece next() override {
    return phase_.piece(counter_->fetch_add(1, std::memory_order_relaxed) - base_);
  }

  void serve() override {}

 private:
  std::shared_ptr<std::byte> memory_;
  std::atomic<int64_t>* counter_;
  int64_t takers_;
  Phase phase_;
  int64_t base_;  // the counter's value at the start of the phase
};

class ServedQueue final : public WorkQueue {
 public:
  explicit ServedQueue(Communicator& comm) : comm_(comm) {}

  void start(int64_t items, int64_t length) override { phase_ = {items, length}; }

  Piece next() override {
    Piece piece;
    const std::byte question{};
    comm_.send(std::span(&question, 1), 0);
    comm_.recv(std::span(&piece, 1), 0);
    return piece;
  }

  void serve() override {
    int64_t waiting = comm_.size() - 1;  // for the empty piece
    for (int64_t i = 0; waiting > 0; ++i) {
      std::byte question{};
      const int taker = comm_.recv(std::span(&question, 1), Communicator::kAnyRank);
      const Piece piece = phase_.piece(i);
      comm_.send(std::span<const Piece>(&piece, 1), taker);
      if (piece.empty()) --waiting;
    }
  }

 private:
  Communicator& comm_;
  Phase phase_;
};

}  // namespace

// The messages of ServedQueue::next() and serve().
QueueTraffic served_queue_traffic(double pieces, int64_t takers) {
  const double answers = pieces + static_cast<double>(takers);
  return {.bytes = answers * static_cast<double>(sizeof(std::byte) + sizeof(WorkQueue::Piece)),
          .messages = 2 * answers};
}

std::unique_ptr<WorkQueue> make_shared_queue(Communicator& host, int64_t takers) {
  return std::make_unique<SharedQueue>(host, takers);
}

std::unique_ptr<WorkQueue> make_served_queue(Communicator& comm) {
  return std::make_unique<ServedQueue>(comm);
}

}  // namespace hanse
