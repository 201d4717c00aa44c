#include "sample_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/rules/privacy/private_steps.hpp"

namespace hanse {

namespace {

struct PassOf {
  int64_t client = -1, round = 0;
  uint64_t seed = 0;
  bool operator==(const PassOf&) const = default;
};

// A client's samples in the order of a pass.
struct ListedPass {
  PassOf of;
  RandomStream shuffle{0, Purpose::kShuffle};
  int64_t begin = 0;           // of the first client's samples
  std::vector<int32_t> order;  // from there
  int64_t samples() const { return std::ssize(order); }
};

class ShuffledPasses final : public SampleOrder {
 public:
  ShuffledPasses(const LocalWork& work, const Federation& federation)
      : work_(work), federation_(federation) {}

  void start(const ClientTask& task) override {
    prepare(coming_, {task.client, task.key(), task.seed});
    std::swap(pass_, coming_);
    coming_.of = {};
    following_ = task.next;
    next_ = 0;
  }

  ListedSamples all() const override { return {pass_.begin, pass_.order}; }

  ListedSamples next() override {
    if (next_ == samples_a_pass(work_, pass_.samples())) {
      pass_.shuffle.shuffle(std::span(pass_.order));
      next_ = 0;
    }
    const auto chosen = batch_at(pass_, next_);
    next_ += std::ssize(chosen);
    return {pass_.begin, chosen};
  }

  // They are of this pass, or of the client that trains next.
  ListedSamples upcoming() override {
    const auto rest = batch_at(pass_, next_);
    if (!rest.empty() || following_ < 0 || work_.pooled) return {pass_.begin, rest};
    prepare(coming_, {following_, pass_.of.round, pass_.of.seed});
    return {coming_.begin, batch_at(coming_, 0)};
  }

 private:
  // Makes the first pass of that participation, unless it is there already.
  void prepare(ListedPass& pass, const PassOf& of) const {
    if (pass.of == of) return;
    pass.of = of;
    pass.shuffle = RandomStream(of.seed, Purpose::kShuffle, static_cast<uint64_t>(of.round),
                                static_cast<uint64_t>(of.client));
    list_samples(pass);
    pass.shuffle.shuffle(std::span(pass.order));
  }

  void list_samples(ListedPass& pass) const {
    const int64_t first = work_.pooled ? 0 : pass.of.client;
    const int64_t end = work_.pooled ? federation_.clients() : pass.of.client + 1;
    pass.begin = federation_.train(first).begin;
    pass.order.clear();
    for (int64_t c = first; c < end; ++c) {
      const SampleRange range = federation_.train(c);
      const auto listed = pass.order.size();
      pass.order.resize(listed + to_index(range.size()));
      std::iota(pass.order.begin() + static_cast<std::ptrdiff_t>(listed), pass.order.end(),
                static_cast<int32_t>(range.begin - pass.begin));
    }
  }

  std::span<const int32_t> batch_at(const ListedPass& pass, int64_t first) const {
    const int64_t all = pass.samples();
    const int64_t rows = std::min(expected_batch(work_, all), samples_a_pass(work_, all) - first);
    return std::span(pass.order).subspan(to_index(first), to_index(rows));
  }

  LocalWork work_;
  const Federation& federation_;
  int64_t following_ = -1;  // the client that trains next
  int64_t next_ = 0;        // first sample of the pass not handed out
  ListedPass pass_, coming_;
};

class PoissonDraws final : public SampleOrder {
 public:
  PoissonDraws(const ClientOptions& options, const Federation& federation)
      : work_(options), steps_(options.private_steps), federation_(federation) {}

  void start(const ClientTask& task) override {
    range_ = federation_.train(task.client);
    order_.resize(to_index(range_.size()));
    std::iota(order_.begin(), order_.end(), 0);
    words_ = batch_words(steps_->key_of(task.client, task.key()));
  }

  ListedSamples all() const override { return {range_.begin, order_}; }

  ListedSamples next() override {
    draw_batch(words_, range_.size(), expected_batch(work_, range_.size()), taken_);
    return {range_.begin, taken_};
  }

 private:
  LocalWork work_;
  std::shared_ptr<const PrivateSteps> steps_;
  const Federation& federation_;
  SampleRange range_{};
  std::vector<int32_t> order_, taken_;
  CipherStream words_{CipherKey()};
};

}  // namespace

std::unique_ptr<SampleOrder> make_sample_order(const ClientOptions& options,
                                               const Federation& federation) {
  if (options.private_steps) return std::make_unique<PoissonDraws>(options, federation);
  return std::make_unique<ShuffledPasses>(options, federation);
}

}  // namespace hanse
