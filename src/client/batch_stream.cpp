#include "batch_stream.hpp"

#include <algorithm>
#include <numeric>

namespace hanse {

void BatchStream::start(const ClientTask& task) {
  list_samples(task.client);
  class_weights_ = weights_.of(begin_, order_);
  batch_ = options_.batch > 0 ? std::min(options_.batch, samples()) : samples();
  shuffle_ = RandomStream(task.seed, Purpose::kShuffle, static_cast<uint64_t>(task.round),
                          static_cast<uint64_t>(task.client));
  steps_ = steps_of_task(options_, task, samples());
  augmentation_.start(task);
  end_ = next_ = samples_a_pass(options_, samples());
}

void BatchStream::list_samples(int64_t client) {
  const int64_t first = options_.pooled ? 0 : client;
  const int64_t end = options_.pooled ? federation_.clients() : client + 1;
  begin_ = federation_.train(first).begin;
  order_.clear();
  for (int64_t c = first; c < end; ++c) {
    const SampleRange range = federation_.train(c);
    const auto listed = order_.size();
    order_.resize(listed + static_cast<std::size_t>(range.size()));
    std::iota(order_.begin() + static_cast<std::ptrdiff_t>(listed), order_.end(),
              static_cast<int32_t>(range.begin - begin_));
  }
}

BatchStream::Samples BatchStream::next_samples() {
  if (next_ == end_) {
    shuffle_.shuffle(std::span(order_));
    next_ = 0;
  }
  const auto chosen = upcoming();
  next_ += static_cast<int64_t>(chosen.size());
  return {begin_, chosen};
}

Batch BatchStream::next() {
  const auto [begin, chosen] = next_samples();
  gathered_.gather(federation_, begin, chosen);
  federation_.prefetch(begin, upcoming());  // arrives while this batch is computed
  Batch batch = gathered_.view();
  augmentation_.apply(gathered_, batch);
  batch.class_weights = class_weights_;
  return batch;
}

std::span<const int32_t> BatchStream::upcoming() const {
  const int64_t rows = std::min(batch_, end_ - next_);
  return {order_.data() + next_, static_cast<std::size_t>(rows)};
}

}  // namespace hanse
