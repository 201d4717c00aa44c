#include "hanse/protocol/stream.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

Stream::Stream(const Federation& federation, const StreamOptions& options, uint64_t seed)
    : federation_(federation), options_(options), seed_(seed) {
  if (options.drift == Drift::kLabels && federation.label_form().values > 1) {
    throw InvalidArgument("samples with several labels or targets have no order", "online.drift",
                          "use none or swap");
  }
  order_.resize(to_index(federation.samples()));
  for (int64_t client = 0; client < federation.clients(); ++client) {
    const SampleRange train = federation.train(client);
    if (train.size() < options.horizon) {
      throw InvalidArgument(
          fmt::format("the stream of {} has {} training samples, too few "
                      "for {} batches",
                      client_label(federation, client), train.size(), options.horizon),
          "online.horizon", "ask for fewer rounds, or give the clients more data");
    }
  }
  order_pass(0);
}

void Stream::order_pass(int64_t pass) {
  pass_ = pass;
  for (int64_t client = 0; client < federation_.clients(); ++client) {
    const SampleRange train = federation_.train(client);
    const SampleRange test = federation_.test(client);
    order_samples(train, client);
    if (test.begin != train.begin) order_samples(test, client);
  }
}

void Stream::order_samples(SampleRange range, int64_t client) {
  const auto begin = to_index(range.begin);
  const std::span<int32_t> order(order_.data() + begin, to_index(range.size()));
  std::iota(order.begin(), order.end(), 0);
  // The first pass is round 0. The federated protocol, whose shuffles start at 1, has no streams.
  RandomStream(seed_, Purpose::kShuffle, static_cast<uint64_t>(pass_),
               static_cast<uint64_t>(client))
      .shuffle(std::span(order));
  if (options_.drift != Drift::kLabels) return;
  const auto by = [&](const auto& values) {
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return values[begin + to_index(a)] < values[begin + to_index(b)];
    });
  };
  if (federation_.labels().empty()) {
    by(federation_.targets());
  } else {
    by(federation_.labels());
  }
}

int64_t Stream::largest_batch(const Federation& federation, int64_t horizon) {
  int64_t most = 1;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    most = std::max(most, (federation.train(client).size() + horizon - 1) / horizon);
  }
  return most;
}

int64_t Stream::source(int64_t node, int64_t t) const {
  const bool swapped = options_.drift == Drift::kSwap && 2 * t > options_.horizon;
  return swapped ? (node + 1) % federation_.clients() : node;
}

void Stream::train(int64_t node, int64_t t, StreamBatch& batch) {
  take(federation_.train(source(node, t)), t, batch);
}

void Stream::test(int64_t node, int64_t t, StreamBatch& batch) {
  take(federation_.test(source(node, t)), t, batch);
}

bool Stream::tests_on_training(int64_t node, int64_t t) const {
  const int64_t client = source(node, t);
  return federation_.test(client).begin == federation_.train(client).begin;
}

void Stream::take(SampleRange range, int64_t t, StreamBatch& batch) {
  const int64_t pass = (t - 1) / options_.horizon;
  if (pass != pass_) order_pass(pass);
  const int64_t turn = (t - 1) % options_.horizon;
  const int64_t begin = range.size() * turn / options_.horizon;
  const int64_t end = range.size() * (turn + 1) / options_.horizon;
  const std::span<const int32_t> chosen(order_.data() + range.begin + begin, to_index(end - begin));
  batch.gather(federation_, range.begin, chosen);
}

}  // namespace hanse
