#include "split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/data/partition.hpp"
#include "partition_kinds.hpp"

namespace hanse {

namespace {

// Moves the chosen elements behind the others; both keep their order. Returns where they begin.
template <class T>
int64_t move_behind(std::span<T> values, const std::vector<char>& chosen) {
  std::vector<T> last;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (chosen[i]) {
      last.push_back(values[i]);
    } else {
      values[kept++] = values[i];
    }
  }
  std::copy(last.begin(), last.end(), values.begin() + static_cast<int64_t>(kept));
  return static_cast<int64_t>(kept);
}

}  // namespace

void check_part(double wanted, const std::string& key) {
  constexpr double kMost = 1e15;  // every whole number below is exact
  if (wanted >= 0 && wanted < kMost && (wanted < 1 || wanted == std::floor(wanted))) return;
  throw InvalidArgument(fmt::format("{} is neither a share nor a number", wanted), key,
                        "a share below 1, or a whole number");
}

int64_t part_of(double wanted, int64_t n) {
  return wanted < 1 ? std::llround(wanted * static_cast<double>(n)) : std::llround(wanted);
}

ClientSplitter::ClientSplitter(std::span<const int32_t> labels, int64_t classes,
                               double test_fraction, uint64_t seed)
    : labels_(labels),
      wanted_(test_fraction),
      seed_(seed),
      stratum_of_(static_cast<std::size_t>(std::max<int64_t>(classes, 1)), -1) {
  check_part(test_fraction, "data.test-fraction");
}

void ClientSplitter::count_strata(std::span<const int64_t> own) {
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

// floor(fraction * n_label) each; what is missing to all test samples goes, one by one, to the
// largest remainders. Equal remainders stand in random order, so that no label is preferred.
void ClientSplitter::set_test_counts(int64_t samples) {
  int64_t missing = test_samples(samples, wanted_);
  const double fraction =
      wanted_ < 1 ? wanted_ : static_cast<double>(missing) / static_cast<double>(samples);
  std::vector<Stratum*> by_remainder;
  for (Stratum& stratum : strata_) {
    const double share = fraction * static_cast<double>(stratum.samples);
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

void ClientSplitter::mark_test(std::span<const int64_t> own) {
  in_test_.assign(own.size(), 0);
  for (const int64_t place : places_) {
    const auto at = static_cast<std::size_t>(place);
    const int64_t stratum = stratum_of_[label(own[at])];
    if (strata_[static_cast<std::size_t>(stratum)].test-- > 0) in_test_[at] = 1;
  }
}

int64_t ClientSplitter::split(std::span<int64_t> own, uint64_t client) {
  places_.resize(own.size());
  std::iota(places_.begin(), places_.end(), int64_t{0});
  RandomStream(seed_, Purpose::kSplit, 0, client).shuffle(std::span<int64_t>(places_));
  count_strata(own);
  set_test_counts(static_cast<int64_t>(own.size()));
  mark_test(own);
  for (const int64_t sample : own) stratum_of_[label(sample)] = -1;  // ready for the next client
  return move_behind(own, in_test_);
}

int64_t test_samples(int64_t n, double test_fraction) {
  return std::min(part_of(test_fraction, n), n - 1);
}

void split_train_test(Partition& partition, const Dataset& dataset, double test_fraction,
                      uint64_t seed) {
  ClientSplitter splitter(dataset.labels, dataset.classes, test_fraction, seed);
  if (test_fraction == 0) return;
  for (int64_t c = 0; c < partition.clients(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    const int64_t begin = partition.offsets[at];
    const std::span<int64_t> own(partition.order.data() + begin,
                                 partition.order.data() + partition.offsets[at + 1]);
    partition.train_end[at] = begin + splitter.split(own, static_cast<uint64_t>(c));
  }
}

void hold_out(std::vector<ClientRanges>& clients, std::vector<std::string>& names,
              int64_t& held_out, double wanted, uint64_t seed) {
  const int64_t there = std::ssize(clients) - held_out;
  check_part(wanted, "federation.held-out");
  const int64_t number = part_of(wanted, there);
  if (number == 0) return;
  if (number >= there) {
    throw InvalidArgument(
        fmt::format("holding {} of {} clients out leaves nobody to train", number, there),
        "federation.held-out", "hold fewer out");
  }
  std::vector<int64_t> order(static_cast<std::size_t>(there));
  std::iota(order.begin(), order.end(), 0);
  partition_stream(seed, PartitionStream::kHeldOut).shuffle(std::span<int64_t>(order));
  std::vector<char> chosen(order.size());
  for (int64_t i = 0; i < number; ++i) {
    chosen[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = 1;
  }
  move_behind(std::span(clients).first(chosen.size()), chosen);
  if (!names.empty()) move_behind(std::span(names).first(chosen.size()), chosen);
  held_out += number;
}

}  // namespace hanse
