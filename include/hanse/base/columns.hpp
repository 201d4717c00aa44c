// Numbers that the parts of a run add to its tables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hanse {

using Metrics = std::vector<std::pair<std::string, double>>;  // name, value; in report order

// Each part (a rule, a sampler, a clock) adds once, before the first round, what says its numbers:
// under the same names every time, NaN for none. Which names there are follows from options that a
// resume keeps, so that a resumed run goes on under the headers that its files have.
class Columns {
 public:
  // Of rounds.csv: of the round that has just ended. Empty before the round `first`.
  void add_to_rounds(std::function<Metrics()> numbers, int64_t first = 1) {
    rounds_.emplace_back(std::move(numbers), first);
  }
  // Of clients.csv: of a client that the table has, one that is held out too, at the run's end.
  void add_to_clients(std::function<Metrics(int64_t client)> numbers) {
    clients_.push_back(std::move(numbers));
  }
  // Of the metrics in summary.json: of the whole run, at its end.
  void add_to_summary(std::function<Metrics()> numbers) { summary_.push_back(std::move(numbers)); }

  // All of them, in the order in which they were added. Round 0: for the names.
  Metrics of_round(int64_t round) const;
  Metrics of_client(int64_t client) const;
  Metrics of_run() const;

 private:
  std::vector<std::pair<std::function<Metrics()>, int64_t>> rounds_;
  std::vector<std::function<Metrics(int64_t)>> clients_;
  std::vector<std::function<Metrics()>> summary_;
};

}  // namespace hanse
