#include "hanse/evaluation/evaluation_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr TestScores kNoScores{
    .samples = kNothing, .loss = kNothing, .accuracy = kNothing, .auroc = kNothing, .asked = {}};

// A NaN has a sign, which tables print.
bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// The places of `clients` when they are put in order; empty: they are in order.
std::vector<uint32_t> order_of(std::span<const int64_t> clients) {
  std::vector<uint32_t> order;
  if (std::ranges::is_sorted(clients)) return order;
  order.resize(clients.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](uint32_t i) { return clients[i]; });
  return order;
}

template <class Number>
std::vector<Number> in_order(std::vector<Number> numbers, std::span<const uint32_t> order) {
  if (order.empty()) return numbers;
  std::vector<Number> sorted(numbers.size());
  for (std::size_t i = 0; i < order.size(); ++i) sorted[i] = numbers[order[i]];
  return sorted;
}

}  // namespace

void NumberColumn::push_back(double value) {
  if (size_ == 0) common_ = value;
  if (values_.empty() && !same_bits(value, common_)) spread();
  if (!values_.empty()) values_.push_back(value);
  ++size_;
}

void NumberColumn::set(std::size_t i, double value) {
  if (values_.empty() && same_bits(value, common_)) return;
  if (values_.empty()) spread();
  values_[i] = value;
}

void NumberColumn::spread() {
  values_.reserve(std::max(expected_, size_ + 1));
  values_.assign(size_, common_);
}

std::span<const double> NumberColumn::numbers(std::size_t begin, std::size_t end,
                                              std::vector<double>& room) const {
  if (!values_.empty()) return std::span(values_).subspan(begin, end - begin);
  room.assign(end - begin, common_);
  return room;
}

void NumberColumn::take(std::vector<double> values) {
  size_ = values.size();
  values_ = std::move(values);
}

void NumberColumn::take(double common, std::size_t size) {
  common_ = common;
  size_ = size;
  values_ = std::vector<double>();  // {} would keep the memory
}

EvaluationTable::EvaluationTable(std::initializer_list<ClientEvaluation> clients)
    : EvaluationTable(std::span(clients.begin(), clients.size())) {}

EvaluationTable::EvaluationTable(std::span<const ClientEvaluation> clients) {
  for (const ClientEvaluation& client : clients) push_back(client);
}

const NumberColumn& EvaluationTable::scores(ScoresOf of, Score score, std::size_t asked) const {
  return columns_[static_cast<std::size_t>(of) * kScores + static_cast<std::size_t>(score) + asked];
}

int64_t EvaluationTable::client(std::size_t i) const {
  return static_cast<int64_t>(i) + static_cast<int64_t>(columns_[kAhead][i]);
}

TestScores EvaluationTable::scores_at(ScoresOf of, std::size_t i) const {
  std::array<double, kScores> numbers;
  for (std::size_t k = 0; k < kScores; ++k) {
    numbers[k] = columns_[static_cast<std::size_t>(of) * kScores + k][i];
  }
  return std::bit_cast<TestScores>(numbers);
}

// Scores that are there have a number of samples.
std::optional<TestScores> EvaluationTable::optional_scores(ScoresOf of, std::size_t i) const {
  if (std::isnan(scores(of, Score::kSamples)[i])) return std::nullopt;
  return scores_at(of, i);
}

ClientEvaluation EvaluationTable::operator[](std::size_t i) const {
  const TestScores own = scores_at(ScoresOf::kOwn, i);
  return {.samples = own.samples,
          .loss = own.loss,
          .accuracy = own.accuracy,
          .train_samples = train_samples()[i],
          .train_loss = train_loss()[i],
          .auroc = own.auroc,
          .took_part = took_part_[i],
          .asked = own.asked,
          .before = optional_scores(ScoresOf::kBefore, i),
          .validation = optional_scores(ScoresOf::kValidation, i),
          .client = client(i)};
}

void EvaluationTable::reserve(std::size_t clients) {
  for (NumberColumn& column : columns_) column.reserve(clients);
  took_part_.reserve(clients);
}

void EvaluationTable::push_back(const ClientEvaluation& client) {
  const std::array<TestScores, 3> scores{client.test_scores(), client.before.value_or(kNoScores),
                                         client.validation.value_or(kNoScores)};
  const auto numbers = std::bit_cast<std::array<double, 3 * kScores>>(scores);
  for (std::size_t k = 0; k < numbers.size(); ++k) columns_[k].push_back(numbers[k]);
  columns_[kTrainSamples].push_back(client.train_samples);
  columns_[kTrainLoss].push_back(client.train_loss);
  columns_[kAhead].push_back(static_cast<double>(client.client - static_cast<int64_t>(size())));
  took_part_.push_back(client.took_part);
}

void EvaluationTable::set_before(std::size_t i, const TestScores& scores) {
  const auto numbers = std::bit_cast<std::array<double, kScores>>(scores);
  for (std::size_t k = 0; k < kScores; ++k) {
    columns_[static_cast<std::size_t>(ScoresOf::kBefore) * kScores + k].set(i, numbers[k]);
  }
}

void EvaluationTable::mark_participants(std::span<const int64_t> drawn) {
  std::vector<int64_t> participants(drawn.begin(), drawn.end());
  std::ranges::sort(participants);
  for (std::size_t i = 0; i < size(); ++i) {
    took_part_[i] = std::ranges::binary_search(participants, client(i));
  }
}

// One number stands for a column where all ranks that have clients have that number alone.
void EvaluationTable::gather(Communicator& comm, std::span<const int64_t> clients) {
  std::vector<int64_t> places = comm.gatherv(clients, 0);
  const std::vector<uint32_t> order = order_of(places);
  if (comm.size() > 1 || !order.empty()) {
    gather_columns(comm, order, places.size());
    took_part_.assign(places.size(), true);
  }
  places = in_order(std::move(places), order);
  columns_[kAhead].take({});
  columns_[kAhead].reserve(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    columns_[kAhead].push_back(static_cast<double>(places[i] - static_cast<int64_t>(i)));
  }
}

void EvaluationTable::gather_columns(Communicator& comm, std::span<const uint32_t> order,
                                     std::size_t clients) {
  struct Found {
    double first;
    enum : int64_t { kNone, kCommon, kDiffers } what;
  };
  std::array<Found, kAhead> mine;
  for (std::size_t k = 0; k < kAhead; ++k) {
    const NumberColumn& column = columns_[k];
    mine[k] = {column[0], empty()              ? Found::kNone
                          : column.is_common() ? Found::kCommon
                                               : Found::kDiffers};
  }
  std::array<Found, kAhead> all{};  // of rank 0
  const auto found = comm.gatherv(std::span<const Found>(mine), 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    Found& together = all[i % kAhead];
    if (found[i].what == Found::kNone) continue;
    const bool same = together.what == Found::kNone || same_bits(together.first, found[i].first);
    if (together.what == Found::kNone) together = found[i];
    if (!same || found[i].what == Found::kDiffers) together.what = Found::kDiffers;
  }
  comm.bcast(std::as_writable_bytes(std::span(all)), 0);
  for (std::size_t k = 0; k < kAhead; ++k) {
    if (all[k].what != Found::kDiffers) {
      columns_[k].take(all[k].first, clients);
      continue;
    }
    std::vector<double> room;
    columns_[k].take(in_order(comm.gatherv(columns_[k].numbers(0, size(), room), 0), order));
  }
}

}  // namespace hanse
