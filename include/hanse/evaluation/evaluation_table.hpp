// What an evaluation finds of each client, and the table that holds it: a column a number, so that
// a federation of millions takes a few numbers a client.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/asked_metrics.hpp"

namespace hanse {

// The scores of one model on some of a client's samples; fields as in ClientEvaluation.
struct TestScores {
  double samples, loss, accuracy, auroc;
  AskedScores asked;
};

// One client, evaluated on its own data: its test samples, or its validation samples where it is
// held out for validation or evaluate.on = validation.
struct ClientEvaluation {
  double samples = 0;   // test samples
  double loss = 0;      // mean test loss
  double accuracy = 0;  // share of test samples classified correctly
  double train_samples = 0;
  double train_loss = 0;                                    // mean loss over the training samples
  double auroc = std::numeric_limits<double>::quiet_NaN();  // area_under_roc() of test samples
  bool took_part = true;                                    // in the last round
  AskedScores asked = {};                                   // over the test samples
  // Scores before evaluate.tune-steps, of a client in training; or the shared model's scores, of a
  // client that never took part, when the scores above are its own model's.
  std::optional<TestScores> before = std::nullopt;
  // With evaluate.on = both, the scores of a client in training on its validation samples.
  std::optional<TestScores> validation = std::nullopt;
  int64_t client = 0;  // its number

  TestScores test_scores() const { return {samples, loss, accuracy, auroc, asked}; }
};

// Which scores of a client, and which of their numbers: the fields of TestScores in their order,
// those of AskedScores from kAsked on.
enum class ScoresOf : std::size_t { kOwn, kBefore, kValidation };
enum class Score : std::size_t { kSamples, kLoss, kAccuracy, kAuroc, kAsked };

// A number of each client. While it is the same for all, bit for bit, it is kept once.
class NumberColumn {
 public:
  std::size_t size() const { return size_; }
  double operator[](std::size_t i) const { return values_.empty() ? common_ : values_[i]; }
  bool is_common() const { return values_.empty(); }

  // Room for so many numbers, taken when they differ.
  void reserve(std::size_t size) { expected_ = size; }
  void push_back(double value);
  void set(std::size_t i, double value);
  // Numbers of a range of clients: those of the column, or `room` filled with the common one.
  std::span<const double> numbers(std::size_t begin, std::size_t end,
                                  std::vector<double>& room) const;
  // Takes so many numbers in the place of its own.
  void take(std::vector<double> values);
  void take(double common, std::size_t size);

 private:
  void spread();

  double common_ = 0;
  std::size_t size_ = 0, expected_ = 0;
  std::vector<double> values_;  // [size], or empty: all are common_
};

// Clients in some order. Memory: 8 bytes a client for each number in which clients differ; the
// clients' own numbers are such a column unless they are 0, 1, 2 and so on. Nobody keeps what was
// not asked for.
class EvaluationTable {
 public:
  class Iterator {
   public:
    Iterator(const EvaluationTable& table, std::size_t at) : table_(&table), at_(at) {}
    ClientEvaluation operator*() const { return (*table_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const EvaluationTable* table_;
    std::size_t at_;
  };

  EvaluationTable() = default;
  EvaluationTable(std::initializer_list<ClientEvaluation> clients);
  explicit EvaluationTable(std::span<const ClientEvaluation> clients);

  std::size_t size() const { return took_part_.size(); }
  bool empty() const { return size() == 0; }
  ClientEvaluation operator[](std::size_t i) const;
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }
  int64_t client(std::size_t i) const;
  bool took_part(std::size_t i) const { return took_part_[i]; }

  void reserve(std::size_t clients);
  void push_back(const ClientEvaluation& client);
  void set_before(std::size_t i, const TestScores& scores);
  // Sets took_part: who is among `drawn`, in any order.
  void mark_participants(std::span<const int64_t> drawn);
  // Brings the rows of all ranks to rank 0, in the order of their clients, which are named anew;
  // empty elsewhere. All of them took part. Collective. Memory of rank 0: one column more, and the
  // clients' numbers.
  void gather(Communicator& comm, std::span<const int64_t> clients);

  const NumberColumn& scores(ScoresOf of, Score score, std::size_t asked = 0) const;
  const NumberColumn& train_samples() const { return columns_[kTrainSamples]; }
  const NumberColumn& train_loss() const { return columns_[kTrainLoss]; }

 private:
  static constexpr std::size_t kScores = sizeof(TestScores) / sizeof(double);
  // The columns: TestScores of each ScoresOf, and then these.
  static constexpr std::size_t kTrainSamples = 3 * kScores, kTrainLoss = kTrainSamples + 1,
                               kAhead = kTrainSamples + 2;  // a client's number less its place

  void gather_columns(Communicator& comm, std::span<const uint32_t> order, std::size_t clients);
  std::optional<TestScores> optional_scores(ScoresOf of, std::size_t i) const;
  TestScores scores_at(ScoresOf of, std::size_t i) const;

  std::array<NumberColumn, kAhead + 1> columns_;
  std::vector<bool> took_part_;
};

// Some clients of a table, one after another. The table must outlive it.
class EvaluationView {
 public:
  EvaluationView(const EvaluationTable& table) : EvaluationView(table, 0, table.size()) {}
  EvaluationView(const EvaluationTable& table, std::size_t begin, std::size_t end)
      : table_(&table), begin_(begin), end_(end) {}

  std::size_t first() const { return begin_; }  // place in the table
  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return size() == 0; }
  EvaluationTable::Iterator begin() const { return {*table_, begin_}; }
  EvaluationTable::Iterator end() const { return {*table_, end_}; }
  const EvaluationTable& table() const { return *table_; }
  // A column's numbers of these clients; `room` as in NumberColumn.
  std::span<const double> numbers(const NumberColumn& column, std::vector<double>& room) const {
    return column.numbers(begin_, end_, room);
  }
  // The clients before the first of which `is_behind` is true, and the others.
  // REQUIRES: it is of all clients behind that one.
  template <class IsBehind>
  std::pair<EvaluationView, EvaluationView> part(IsBehind is_behind) const {
    std::size_t low = begin_, high = end_;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (is_behind(table_->client(middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return {{*table_, begin_, low}, {*table_, low, end_}};
  }

 private:
  const EvaluationTable* table_;
  std::size_t begin_, end_;
};

}  // namespace hanse
