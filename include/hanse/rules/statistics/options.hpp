// Options of statistics: [statistics] of a job.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

// The samples that statistics are of.
enum class StatisticsOn { kAll, kTrain, kTest };
constexpr auto choices_of(StatisticsOn) { return std::array{"all", "train", "test"}; }

enum class GlmFamily { kGaussian, kBinomial, kPoisson };
constexpr auto choices_of(GlmFamily) { return std::array{"gaussian", "binomial", "poisson"}; }

enum class PcaScale { kCorrelation, kCovariance };
constexpr auto choices_of(PcaScale) { return std::array{"correlation", "covariance"}; }

enum class MixtureCovariance { kFull, kDiagonal };
constexpr auto choices_of(MixtureCovariance) { return std::array{"full", "diagonal"}; }

// What counts of events at one time: Efron 1977, or Breslow 1974.
enum class CoxTies { kEfron, kBreslow };
constexpr auto choices_of(CoxTies) { return std::array{"efron", "breslow"}; }

// Weights of the times in a log-rank test: 1, n, sqrt(n), of n at risk.
enum class LogRankWeights { kLogRank, kWilcoxon, kTaroneWare };
constexpr auto choices_of(LogRankWeights) {
  return std::array{"log-rank", "wilcoxon", "tarone-ware"};
}

struct StatisticsOptions {
  std::string kind = "moments";  // several, separated by commas: one after another
  StatisticsOn on = StatisticsOn::kAll;
  std::string columns = "*";  // names, with * and ?, separated by commas
  std::string by;             // a column, "client" or "label"; empty: nothing is grouped
  double level = 0.95;        // of intervals
  int64_t least_count = 0;    // cells, groups and risk sets below it are left empty
  int64_t iterations = 100;
  double tolerance = 1e-10;

  int64_t bins = 64;                                      // histogram
  std::vector<double> edges;                              // histogram; empty: from min to max
  std::vector<double> probabilities = {0.25, 0.5, 0.75};  // quantiles
  std::string rows;                                       // crosstab: a column
  std::vector<double> low, high;  // with privacy: public bounds of each column

  std::string target;  // glm: a column; empty: the label
  GlmFamily family = GlmFamily::kBinomial;
  std::string offset, weights;  // glm: columns
  bool intercept = true;        // glm
  bool robust = false;          // glm, cox: sandwich standard errors

  PcaScale scale = PcaScale::kCorrelation;
  int64_t components = 2;                                   // pca
  int64_t clusters = 8;                                     // kmeans, gmm
  int64_t starts = 10;                                      // kmeans, gmm
  MixtureCovariance covariance = MixtureCovariance::kFull;  // gmm

  std::string time = "time", event = "event";  // survival: columns
  std::string strata;                          // cox, log-rank: a column
  CoxTies ties = CoxTies::kEfron;
  LogRankWeights weighting = LogRankWeights::kLogRank;
  double grid = 0;  // times are rounded up to its multiples; 0: as they are
};

}  // namespace hanse
