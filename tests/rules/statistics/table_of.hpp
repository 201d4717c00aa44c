// A table of samples for tests of statistics, divided among clients, ranks and blocks in any way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse::test {

// How samples lie: those of a client one after another, ranks with equal shares of them.
struct Division {
  int64_t clients = 1;
  std::size_t ranks = 1;
  std::size_t block = 512;  // samples of a look, at most
};

class TableOf {
 public:
  // Names of columns, the label's last; `rows` of as many numbers.
  TableOf(std::vector<std::string> names, std::vector<std::vector<double>> rows)
      : rows_(std::move(rows)) {
    for (std::string& name : names) setup.table.columns.push_back({std::move(name), {}});
    setup.table.labels = 1;
  }

  std::vector<std::string>& levels(const std::string& column) {
    return setup.table.columns[setup.table.find(column, "")].levels;
  }

  // The clients' samples, unless told here, are every clients-th row.
  std::function<int64_t(std::size_t row)> client_of;

  // What the analysis finds. `integers`, where it is not null, takes those of all answers.
  StatisticsResult run(AnalysisMaker make, const Division& division = {},
                       std::vector<int64_t>* integers = nullptr) const {
    std::vector<std::unique_ptr<Analysis>> analyses;
    for (std::size_t rank = 0; rank < division.ranks; ++rank) analyses.push_back(make(setup));
    const auto order = order_of(division);
    while (const auto question = analyses[0]->question()) {
      Findings whole = analyses[0]->open(*question);
      std::vector<int64_t> limbs(whole.sums.limbs().size());
      for (std::size_t rank = 0; rank < division.ranks; ++rank) {
        Findings own = analyses[rank]->open(*question);
        const std::size_t begin = rows_.size() * rank / division.ranks;
        const std::size_t end = rows_.size() * (rank + 1) / division.ranks;
        look(*analyses[rank], *question, order, begin, end, division, own);
        add(own, whole, limbs);
      }
      whole.sums.set_limbs(limbs);
      if (integers != nullptr) {
        const std::vector<int64_t> sums = whole.sums.limbs();
        integers->insert(integers->end(), sums.begin(), sums.end());
        integers->insert(integers->end(), whole.counts.begin(), whole.counts.end());
      }
      analyses[0]->hear(std::move(whole));
    }
    return analyses[0]->result();
  }

  const std::vector<std::vector<double>>& rows() const { return rows_; }

  AnalysisSetup setup;

 private:
  int64_t owner(std::size_t row, const Division& division) const {
    return client_of ? client_of(row) : static_cast<int64_t>(row) % division.clients;
  }

  // Rows by clients.
  std::vector<std::size_t> order_of(const Division& division) const {
    std::vector<std::size_t> order(rows_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return owner(a, division) < owner(b, division);
    });
    return order;
  }

  void look(const Analysis& analysis, const Question& question,
            const std::vector<std::size_t>& order, std::size_t begin, std::size_t end,
            const Division& division, Findings& findings) const {
    while (begin < end) {
      const int64_t client = owner(order[begin], division);
      std::vector<float> values;
      std::vector<int64_t> places;
      for (; begin < end && places.size() < division.block; ++begin) {
        if (owner(order[begin], division) != client) break;
        for (const double value : rows_[order[begin]]) values.push_back(static_cast<float>(value));
        places.push_back(static_cast<int64_t>(order[begin]));
      }
      const Samples samples{
          .values = values, .places = places, .client = client, .width = setup.table.width()};
      analysis.look(question, samples, findings);
    }
  }

  static void add(Findings& own, Findings& whole, std::vector<int64_t>& limbs) {
    const std::vector<int64_t> own_limbs = own.sums.limbs();
    for (std::size_t i = 0; i < limbs.size(); ++i) limbs[i] += own_limbs[i];
    for (std::size_t i = 0; i < whole.counts.size(); ++i) whole.counts[i] += own.counts[i];
    for (std::size_t i = 0; i < whole.largest.size(); ++i) {
      whole.largest[i] = std::max(whole.largest[i], own.largest[i]);
    }
    for (std::size_t i = 0; i < whole.distinct.size(); ++i) {
      for (const double value : own.distinct[i].sorted()) whole.distinct[i].add(value);
    }
  }

  std::vector<std::vector<double>> rows_;
};

// A field of a result's table as a number.
inline double number(const Cell& cell) {
  if (const auto* whole = std::get_if<int64_t>(&cell)) return static_cast<double>(*whole);
  return std::get<double>(cell);
}
inline std::string text(const Cell& cell) { return std::get<std::string>(cell); }

inline const ResultTable& table_of(const StatisticsResult& result, const std::string& name) {
  return *std::ranges::find(result.tables, name, &ResultTable::name);
}
inline std::vector<Cell> column_of(const ResultTable& table, const std::string& name) {
  const auto at = std::ranges::find(table.columns, name) - table.columns.begin();
  std::vector<Cell> cells;
  for (const auto& row : table.rows) cells.push_back(row.at(static_cast<std::size_t>(at)));
  return cells;
}
inline std::vector<double> numbers_of(const ResultTable& table, const std::string& name) {
  std::vector<double> numbers;
  for (const Cell& cell : column_of(table, name)) numbers.push_back(number(cell));
  return numbers;
}
inline Cell fact_of(const StatisticsResult& result, const std::string& name) {
  return std::ranges::find(result.facts, name, &std::pair<std::string, Cell>::first)->second;
}

// All that a result says, to the last digit.
inline std::string whole_text(const StatisticsResult& result) {
  std::string all;
  const auto write = [&](const Cell& cell) {
    std::visit([&](const auto& value) { all += fmt::format("{},", value); }, cell);
  };
  for (const auto& [name, cell] : result.facts) {
    all += name + " ";
    write(cell);
  }
  for (const ResultTable& table : result.tables) {
    all += "\n" + table.name + "\n";
    for (const auto& row : table.rows) std::ranges::for_each(row, write);
  }
  for (const std::string& note : result.notes) all += "\n" + note;
  return all;
}

}  // namespace hanse::test
