#include "hanse/comm/work_queue.hpp"

#include <new>

namespace hanse {

WorkQueue::WorkQueue(Communicator& host, int64_t takers)
    : memory_(host.allocate_shared(sizeof(std::atomic<int64_t>))), takers_(takers) {
  static_assert(std::atomic<int64_t>::is_always_lock_free);
  counter_ = reinterpret_cast<std::atomic<int64_t>*>(memory_.get());
  if (host.rank() == 0) new (counter_) std::atomic<int64_t>(0);
  host.barrier();
}

void WorkQueue::start(int64_t items) {
  // In the phase before, `items_` claims succeeded and each taker failed once.
  if (!first_) base_ += items_ + takers_;
  first_ = false;
  items_ = items;
}

int64_t WorkQueue::next() {
  const int64_t piece = counter_->fetch_add(1, std::memory_order_relaxed) - base_;
  return piece < items_ ? piece : -1;
}

}  // namespace hanse
