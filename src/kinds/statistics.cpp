#include "hanse/kinds/statistics.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

namespace {

struct StatisticsKind : KindRow<Job> {
  AnalysisMaker make;
};

void require_groups(const Job& job) {
  if (!job.statistics.by.empty()) return;
  throw InvalidArgument("a comparison needs groups", "statistics.by", "name a column");
}

void check_crosstab(const Job& job) {
  require_groups(job);
  if (!job.statistics.rows.empty()) return;
  throw InvalidArgument("a table of two columns needs both", "statistics.rows",
                        "name the column of its rows; statistics.by has the other one");
}

void check_edges(const Job& job) {
  const auto& edges = job.statistics.edges;
  const bool ascends = std::ranges::adjacent_find(edges, std::greater_equal()) == edges.end();
  if (edges.empty() || (edges.size() > 1 && ascends)) return;
  throw InvalidArgument("ends of bins are at least two, and ascend", "statistics.edges",
                        "18,30,40,65, for example; empty: statistics.bins of equal width");
}

const Family<StatisticsKind> kStatistics{
    "statistics",
    "statistics.kind",
    "what is computed of all samples; several, separated by commas: one after another",
    chosen_by<&Job::statistics, &StatisticsOptions::kind>,
    {{{"moments", "n, missing, mean, deviation, extremes, skewness, covariances; tests by group"},
      make_moments}},
    true};

}  // namespace

KindFamily statistics_family() { return listed(kStatistics); }

void check_statistics(const Job& job) {
  check_data(job.data, job.federation);
  const MissingValues missing = job.data.missing;
  if (missing != MissingValues::kRefuse && missing != MissingValues::kDrop &&
      missing != MissingValues::kKeep) {
    throw InvalidArgument("statistics fill no missing value", "data.missing",
                          "keep counts the known ones, drop leaves out rows, refuse stops");
  }
  if (split_list(job.statistics.kind).empty()) {
    throw InvalidArgument("no statistic is asked for", "statistics.kind", "moments, for example");
  }
}

std::unique_ptr<Analysis> make_analysis(const std::string& kind, const AnalysisSetup& setup) {
  return kStatistics.find(kind).make(setup);
}

}  // namespace hanse
