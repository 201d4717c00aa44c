// The numbers that rules are told of a round's participants: a row each. What hides a number from
// the rules that do not ask for it, writes it to traces, reads it in replays and passes it on to
// rules of the user's own goes over the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hanse/plugin.h"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// A number of each participant, which is a member of the report.
template <class T, class Report, class Asked, class View>
struct ToldNumber {
  const char* name;  // in traces and in Python
  std::span<const T> Report::*member;
  Asked asked = nullptr;                // of a rule; null: it is told wherever it is known
  const T* View::*view = nullptr;       // in plugin.h; null: rules of the user's own are not told
  int32_t HanseNeeds::*said = nullptr;  // by which these ask for it; null: they need not
  double least = 0;                     // in a trace
  bool matrices = false;  // [L, K, K] in the place of [K], with the rows beside the participants'
};

template <class T>
using ToldToAggregators = ToldNumber<T, RoundReport, bool AggregatorNeeds::*, HanseReport>;
template <class T>
using ToldToSamplers = ToldNumber<T, Feedback, bool (ClientSampler::*)() const, HanseFeedback>;

// The rows of a report, in the order of its fields in traces.
template <class Report>
inline constexpr auto kTold = std::tuple();

inline constexpr double kAnyNumber = -std::numeric_limits<double>::infinity();

template <>
inline constexpr auto kTold<RoundReport> = std::tuple(
    ToldToAggregators<double>{"sizes", &RoundReport::samples, nullptr, &HanseReport::samples},
    ToldToAggregators<double>{"draw_weights", &RoundReport::draw_weights, nullptr,
                              &HanseReport::draw_weights},
    ToldToAggregators<double>{"norms", &RoundReport::norms, &AggregatorNeeds::norms,
                              &HanseReport::norms, &HanseNeeds::norms},
    ToldToAggregators<double>{"losses", &RoundReport::losses, &AggregatorNeeds::losses,
                              &HanseReport::losses, &HanseNeeds::losses, kAnyNumber},
    ToldToAggregators<double>{"rates", &RoundReport::rates, &AggregatorNeeds::rates,
                              &HanseReport::rates, &HanseNeeds::rates},
    ToldToAggregators<double>{"distances", &RoundReport::distances, &AggregatorNeeds::distances},
    ToldToAggregators<double>{"gram", &RoundReport::gram, &AggregatorNeeds::gram,
                              &HanseReport::gram, &HanseNeeds::gram, kAnyNumber, true},
    ToldToAggregators<int64_t>{"permutation", &RoundReport::permutation},
    ToldToAggregators<int64_t>{"staleness", &RoundReport::staleness, nullptr,
                               &HanseReport::staleness},
    ToldToAggregators<double>{"durations", &RoundReport::durations, nullptr,
                              &HanseReport::durations});

template <>
inline constexpr auto kTold<Feedback> = std::tuple(
    ToldToSamplers<double>{"feedback", &Feedback::a, nullptr, &HanseFeedback::feedback, nullptr,
                           kAnyNumber},
    ToldToSamplers<double>{"losses", &Feedback::losses, nullptr, &HanseFeedback::losses, nullptr,
                           kAnyNumber},
    ToldToSamplers<int64_t>{"staleness", &Feedback::staleness, nullptr, &HanseFeedback::staleness},
    ToldToSamplers<double>{"durations", &Feedback::durations, nullptr, &HanseFeedback::durations},
    ToldToSamplers<double>{"squares", &Feedback::squares, &ClientSampler::needs_squares},
    ToldToSamplers<double>{"sizes", &Feedback::sizes, &ClientSampler::needs_squares});

// Every number has a row; round, clients and lambda, which follows from the sizes, need none.
template <class Report>
inline constexpr std::size_t kBytesTold = std::tuple_size_v<decltype(kTold<Report>)> *
                                          sizeof(std::span<const double>);
static_assert(sizeof(RoundReport) ==
              sizeof(int64_t) + 2 * sizeof(std::span<const double>) + kBytesTold<RoundReport>);
static_assert(sizeof(Feedback) == kBytesTold<Feedback>);

// f(row) of each number.
template <class Report, class F>
void for_each_told(F f) {
  std::apply([&](const auto&... row) { (f(row), ...); }, kTold<Report>);
}

// `rule`: AggregatorNeeds, or the sampler.
template <class Row, class Rule>
bool is_told(const Row& row, const Rule& rule) {
  return !row.asked || std::invoke(row.asked, rule);
}

// The report without the numbers that the rule does not ask for.
template <class Report, class Rule>
Report only_told(Report report, const Rule& rule) {
  for_each_told<Report>([&](const auto& row) {
    if (!is_told(row, rule)) report.*row.member = {};
  });
  return report;
}

// A report that owns the numbers that were given to keep().
template <class Report>
class OwnedReport {
 public:
  OwnedReport() = default;
  explicit OwnedReport(const Report& others) : report_(others) {}
  OwnedReport(OwnedReport&&) noexcept = default;  // no copy: report() would be of the first
  OwnedReport& operator=(OwnedReport&&) noexcept = default;

  const Report& report() const { return report_; }
  template <class T>
  void keep(std::span<const T> Report::*member, std::type_identity_t<std::vector<T>> numbers) {
    report_.*member = std::get<std::vector<T>>(arrays_.emplace_back(std::move(numbers)));
  }

 private:
  Report report_{};
  std::list<std::variant<std::vector<double>, std::vector<int64_t>>> arrays_;
};

// A copy of the rows' numbers.
template <class Report>
OwnedReport<Report> copy_told(const Report& report) {
  OwnedReport<Report> copy;
  for_each_told<Report>([&](const auto& row) {
    const auto numbers = report.*row.member;
    copy.keep(row.member, {numbers.begin(), numbers.end()});
  });
  return copy;
}

// The numbers of the participants at these places. No matrices.
template <class Report>
OwnedReport<Report> at_places(const Report& report, const std::vector<std::size_t>& places) {
  OwnedReport<Report> picked;
  for_each_told<Report>([&]<class T, class... Of>(const ToldNumber<T, Of...>& row) {
    const std::span<const T> numbers = report.*row.member;
    std::vector<T> some;
    for (const std::size_t place : places) {
      if (!numbers.empty()) some.push_back(numbers[place]);
    }
    picked.keep(row.member, std::move(some));
  });
  return picked;
}

}  // namespace hanse
