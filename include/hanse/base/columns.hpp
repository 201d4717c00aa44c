// Numbers that the parts of a run add to its tables.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hanse {

using Metrics = std::vector<std::pair<std::string, double>>;  // name, value; in report order

// Each part (a rule, a sampler, a clock) adds a function of its numbers once, before the first
// round. It returns the same names every time, NaN for none. The names follow from options that a
// resume keeps, so that a resumed run goes on under the headers that its files have.
class Columns {
 public:
  // Columns of rounds.csv, about the round that has just ended. Empty before the round `first`.
  void add_to_rounds(std::function<Metrics()> numbers, int64_t first = 1) {
    rounds_.emplace_back(std::move(numbers), first);
  }
  // Columns of clients.csv at the run's end, for each client of the table, held-out ones included.
  void add_to_clients(std::function<Metrics(int64_t client)> numbers) {
    clients_.push_back(std::move(numbers));
  }
  // Metrics of summary.json: numbers of the whole run, at its end.
  void add_to_summary(std::function<Metrics()> numbers) { summary_.push_back(std::move(numbers)); }

  // The numbers of all parts, in the order in which they were added. Round 0: for the names.
  Metrics of_round(int64_t round) const {
    Metrics all;
    for (const auto& [numbers, first] : rounds_) {
      for (auto& [name, value] : numbers()) {
        const double shown = round < first ? std::numeric_limits<double>::quiet_NaN() : value;
        all.emplace_back(std::move(name), shown);
      }
    }
    return all;
  }
  Metrics of_client(int64_t client) const { return joined(clients_, client); }
  Metrics of_run() const { return joined(summary_); }

 private:
  template <class Parts, class... Arguments>
  static Metrics joined(const Parts& parts, Arguments... arguments) {
    Metrics all;
    for (const auto& numbers : parts) {
      const Metrics more = numbers(arguments...);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  std::vector<std::pair<std::function<Metrics()>, int64_t>> rounds_;
  std::vector<std::function<Metrics(int64_t)>> clients_;
  std::vector<std::function<Metrics()>> summary_;
};

}  // namespace hanse
