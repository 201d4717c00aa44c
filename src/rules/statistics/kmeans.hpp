// k-means on standardized columns: also where a mixture begins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "features.hpp"

namespace hanse {

// Columns less their mean, divided by their deviation.
struct StandardColumns {
  std::vector<StatisticsFeature> features;
  std::vector<double> means, deviations, reach;  // [p]; reach: the largest |z|

  std::size_t size() const { return features.size(); }
  // false: a value is missing.
  bool write(const float* row, double* z) const;
};

struct Clustering {
  std::vector<double> centers;  // [k, p] of standardized columns
  std::vector<int64_t> counts;  // [k]
  double inertia = 0;           // sum of squared distances to the nearest centre
  int64_t iterations = 0;
};

// Looks: those of moments. For each start: its centres, three looks each (the least score, the
// first sample that has it, its values): the sample s whose e_s / d_s^2 is least joins, e_s = -log
// u of the stream (seed, kStatistics, 1000 start + centre, s), d_s its distance to the nearest
// centre, so that s is drawn with a probability as d_s^2 (k-means++, Arthur and Vassilvitskii 2007,
// as a race of exponentials, which has no order). Then Lloyd's steps, one look each, until no
// centre moves; a cluster without samples takes the sample that is farthest from its centre. The
// start with the least inertia counts, the first of equal ones.
class KMeans final : public Analysis {
 public:
  explicit KMeans(const AnalysisSetup& setup);

  std::optional<Question> question() override;
  Findings open(const Question& question) const override;
  void look(const Question& question, const Samples& samples, Findings& findings) const override;
  void hear(Findings findings) override;
  StatisticsResult result() const override;
  double value() const override { return present_.inertia; }

  // Once it is complete.
  const StandardColumns& columns() const { return columns_; }
  const Clustering& best() const { return best_; }

 private:
  enum Step : int64_t { kMoments, kScore, kPick, kFetch, kAssign };

  void take_moments();
  void begin_start();
  void take_fetched(const Findings& findings);
  void take_assignment(Findings& findings);
  void move_centers(const std::vector<double>& sums);
  std::size_t p() const { return columns_.size(); }
  std::size_t k() const { return clusters_; }
  double score(const Question& question, const double* z, std::size_t centers, int64_t place) const;

  StatisticsOptions options_;
  uint64_t seed_;
  std::size_t clusters_;
  std::unique_ptr<Analysis> moments_;
  StandardColumns columns_;
  Step step_ = kMoments;
  int64_t start_ = 0;
  bool begins_ = true;       // a start's centres are drawn; else an empty cluster is filled
  double picked_score_ = 0;  // of the sample that joins
  double picked_place_ = 0;
  std::vector<double> drawn_;  // [.., p] centres so far
  std::size_t empty_ = 0;      // the cluster that is filled
  Clustering present_, best_;
};

// The centre nearest to z among `count` ones [count, p], the first of equal ones; `square` gets the
// squared distance.
std::size_t nearest_center(const double* centers, std::size_t count, const double* z, std::size_t p,
                           double& square);

}  // namespace hanse
