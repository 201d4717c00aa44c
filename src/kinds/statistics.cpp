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
  AnalysisMaker make_private = nullptr;  // null: it is not private
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
      make_moments,
      make_private_moments},
     {{"quantiles", "exact quantiles of columns, as numpy's inverted_cdf"},
      make_quantiles,
      make_private_quantiles},
     {{"histogram", "counts of columns by bins", {}, check_edges},
      make_histogram,
      make_private_histogram},
     {{"crosstab", "counts by two columns, and the test of their independence", {}, check_crosstab},
      make_crosstab,
      make_private_crosstab},
     {{"glm", "linear, logistic or Poisson regression, as one fit of all samples"}, make_glm},
     {{"pca", "principal components of columns"}, make_pca},
     {{"kmeans", "clusters by Lloyd's steps from k-means++ starts"}, make_kmeans},
     {{"gmm", "a mixture of normal laws by EM, from kmeans"}, make_gmm},
     {{"kaplan-meier", "survival over time by group, with intervals, medians, Nelson-Aalen"},
      make_kaplan_meier},
     {{"log-rank", "the test of equal survival of groups", {}, require_groups}, make_log_rank},
     {{"cox", "hazard ratios, as one fit of all samples; by groups: a meta-analysis beside it"},
      make_cox}},
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
  const auto kinds = split_list(job.statistics.kind);
  if (kinds.empty()) {
    throw InvalidArgument("no statistic is asked for", "statistics.kind", "moments, for example");
  }
  if (job.privacy.is_distributed()) {
    throw InvalidArgument("the noise of statistics is one draw", "privacy.kind", "use central");
  }
  for (const std::string& kind : kinds) {
    if (!job.privacy.is_on() || kStatistics.find(kind).make_private) continue;
    throw InvalidArgument(fmt::format("{} has no private form", kind), "statistics.kind",
                          "moments, quantiles, histogram and crosstab have one");
  }
}

std::unique_ptr<Analysis> make_analysis(const std::string& kind, const AnalysisSetup& setup,
                                        bool is_private) {
  const StatisticsKind& row = kStatistics.find(kind);
  return (is_private ? row.make_private : row.make)(setup);
}

}  // namespace hanse
