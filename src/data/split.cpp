// The train/test split of every client.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

namespace {

// The samples of one label of one client.
struct Stratum {
  int64_t samples = 0;
  int64_t test = 0;
  double remainder = 0;
};

// Splits one client after another; buffers are used again.
class Splitter {
 public:
  Splitter(const Dataset& dataset, double fraction, uint64_t seed)
      : dataset_(dataset),
        fraction_(fraction),
        seed_(seed),
        stratum_of_(static_cast<std::size_t>(std::max<int64_t>(dataset.classes, 1)), -1) {}

  // Puts the client's test samples behind its training samples; both keep their order. Returns the
  // number of training samples.
  int64_t split(std::span<int64_t> own, uint64_t client);

 private:
  std::size_t label(int64_t sample) const {
    return dataset_.labels.empty()
               ? 0
               : static_cast<std::size_t>(dataset_.labels[static_cast<std::size_t>(sample)]);
  }
  void count_strata(std::span<const int64_t> own);
  void set_test_counts(int64_t samples);
  void mark_test(std::span<const int64_t> own);
  int64_t move_test(std::span<int64_t> own);

  const Dataset& dataset_;
  double fraction_;
  uint64_t seed_;
  std::vector<int64_t> stratum_of_;  // [classes]; -1: the client has none
  std::vector<Stratum> strata_;      // in the order of first appearance in places_
  std::vector<int64_t> places_;      // of the client's samples, in random order
  std::vector<char> in_test_;
  std::vector<int64_t> moved_;
};

void Splitter::count_strata(std::span<const int64_t> own) {
  strata_.clear();
  for (const int64_t place : places_) {
    int64_t& stratum = stratum_of_[label(own[static_cast<std::size_t>(place)])];
    if (stratum < 0) {
      stratum = static_cast<int64_t>(strata_.size());
      strata_.push_back({});
    }
    ++strata_[static_cast<std::size_t>(stratum)].samples;
  }
}

// floor(fraction * n_label) each; what is missing to round(fraction * n) goes, one by one, to the
// largest remainders. Equal remainders stand in random order, so that no label is preferred.
void Splitter::set_test_counts(int64_t samples) {
  const auto wanted = static_cast<int64_t>(std::llround(fraction_ * static_cast<double>(samples)));
  int64_t missing = std::min(wanted, samples - 1);
  std::vector<Stratum*> by_remainder;
  for (Stratum& stratum : strata_) {
    const double share = fraction_ * static_cast<double>(stratum.samples);
    stratum.test = static_cast<int64_t>(share);
    stratum.remainder = share - std::floor(share);
    missing -= stratum.test;
    by_remainder.push_back(&stratum);
  }
  std::stable_sort(by_remainder.begin(), by_remainder.end(),
                   [](const Stratum* a, const Stratum* b) { return a->remainder > b->remainder; });
  for (Stratum* stratum : by_remainder) {
    if (missing <= 0) break;
    if (stratum->test == stratum->samples) continue;
    ++stratum->test;
    --missing;
  }
}

void Splitter::mark_test(std::span<const int64_t> own) {
  in_test_.assign(own.size(), 0);
  for (const int64_t place : places_) {
    const auto at = static_cast<std::size_t>(place);
    const int64_t stratum = stratum_of_[label(own[at])];
    if (strata_[static_cast<std::size_t>(stratum)].test-- > 0) in_test_[at] = 1;
  }
}

int64_t Splitter::move_test(std::span<int64_t> own) {
  moved_.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (in_test_[i]) {
      moved_.push_back(own[i]);
    } else {
      own[kept++] = own[i];
    }
  }
  std::copy(moved_.begin(), moved_.end(), own.begin() + static_cast<int64_t>(kept));
  return static_cast<int64_t>(kept);
}

int64_t Splitter::split(std::span<int64_t> own, uint64_t client) {
  places_.resize(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) places_[i] = static_cast<int64_t>(i);
  RandomStream(seed_, Purpose::kSplit, 0, client).shuffle(std::span<int64_t>(places_));
  count_strata(own);
  set_test_counts(static_cast<int64_t>(own.size()));
  mark_test(own);
  for (const int64_t sample : own) stratum_of_[label(sample)] = -1;  // ready for the next client
  return move_test(own);
}

}  // namespace

void split_train_test(Partition& partition, const Dataset& dataset, double test_fraction,
                      uint64_t seed) {
  if (!(test_fraction >= 0 && test_fraction < 1)) {
    throw InvalidArgument(fmt::format("the test fraction is {}", test_fraction),
                          "data.test-fraction", "it is in [0, 1)");
  }
  if (test_fraction == 0) return;
  Splitter splitter(dataset, test_fraction, seed);
  for (int64_t c = 0; c < partition.clients(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    const int64_t begin = partition.offsets[at];
    const std::span<int64_t> own(partition.order.data() + begin,
                                 partition.order.data() + partition.offsets[at + 1]);
    partition.train_end[at] = begin + splitter.split(own, static_cast<uint64_t>(c));
  }
}

}  // namespace hanse
