#include "batch_stream.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hanse {

void BatchStream::start(const ClientTask& task) {
  prepare(coming_, {task.client, task.round, task.seed});
  std::swap(pass_, coming_);
  coming_.of = {};
  following_ = task.next;
  next_ = 0;
  class_weights_ = weights_.of(pass_.begin, pass_.order);
  steps_ = steps_of_task(work_, task, pass_.samples());
  augmentation_.start(task);
}

void BatchStream::prepare(Pass& pass, const Participation& of) const {
  if (pass.of == of) return;
  pass.of = of;
  pass.shuffle = RandomStream(of.seed, Purpose::kShuffle, static_cast<uint64_t>(of.round),
                              static_cast<uint64_t>(of.client));
  list_samples(pass);
  pass.shuffle.shuffle(std::span(pass.order));
}

void BatchStream::list_samples(Pass& pass) const {
  const int64_t first = work_.pooled ? 0 : pass.of.client;
  const int64_t end = work_.pooled ? federation_.clients() : pass.of.client + 1;
  pass.begin = federation_.train(first).begin;
  pass.order.clear();
  for (int64_t c = first; c < end; ++c) {
    const SampleRange range = federation_.train(c);
    const auto listed = pass.order.size();
    pass.order.resize(listed + static_cast<std::size_t>(range.size()));
    std::iota(pass.order.begin() + static_cast<std::ptrdiff_t>(listed), pass.order.end(),
              static_cast<int32_t>(range.begin - pass.begin));
  }
}

ListedSamples BatchStream::next_samples() {
  if (next_ == samples_a_pass(work_, pass_.samples())) {
    pass_.shuffle.shuffle(std::span(pass_.order));
    next_ = 0;
  }
  const auto chosen = batch_at(pass_, next_);
  next_ += std::ssize(chosen);
  return {pass_.begin, chosen};
}

Batch BatchStream::next() {
  const auto [begin, chosen] = next_samples();
  gathered_.gather(federation_, begin, chosen, upcoming());
  Batch batch = gathered_.view();
  augmentation_.apply(gathered_, batch);
  batch.class_weights = class_weights_;
  return batch;
}

ListedSamples BatchStream::upcoming() {
  const auto rest = batch_at(pass_, next_);
  if (!rest.empty() || following_ < 0 || work_.pooled) return {pass_.begin, rest};
  prepare(coming_, {following_, pass_.of.round, pass_.of.seed});
  return {coming_.begin, batch_at(coming_, 0)};
}

std::span<const int32_t> BatchStream::batch_at(const Pass& pass, int64_t first) const {
  const int64_t all = pass.samples();
  const int64_t batch = work_.batch > 0 ? std::min(work_.batch, all) : all;
  const int64_t rows = std::min(batch, samples_a_pass(work_, all) - first);
  return std::span(pass.order)
      .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
}

}  // namespace hanse
