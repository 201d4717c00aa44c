#include "hanse/rules/bandit/clusters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>
#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

using Matrix = Eigen::MatrixXd;
using Points = Eigen::Map<const Matrix>;  // [features, samples]

constexpr int64_t kMostSteps = 100;
constexpr int64_t kRestarts = 10;

// The first centroid is uniform, each further one a sample drawn by its squared distance to the
// nearest so far.
Matrix start(const Points& points, int64_t k, RandomStream& stream) {
  Matrix centroids(points.rows(), k);
  Eigen::VectorXd nearest =
      Eigen::VectorXd::Constant(points.cols(), std::numeric_limits<double>::infinity());
  Eigen::Index chosen = stream.below(points.cols());
  for (int64_t j = 0; j < k; ++j) {
    centroids.col(j) = points.col(chosen);
    nearest = nearest.cwiseMin(
        (points.colwise() - points.col(chosen)).colwise().squaredNorm().transpose());
    if (j + 1 == k) break;
    const double sum = nearest.sum();
    if (!(sum > 0)) {
      throw InvalidArgument(fmt::format("only {} distinct samples for {} clusters", j + 1, k),
                            "bandit.count");
    }
    double left = stream.uniform() * sum;
    for (chosen = 0; chosen + 1 < points.cols(); ++chosen) {
      left -= nearest[chosen];
      if (left < 0) break;
    }
  }
  return centroids;
}

// Gives each sample to its nearest centroid, the lowest of equals; true when any moved.
bool assign(const Points& points, const Matrix& centroids, Clusters& clusters) {
  const Eigen::VectorXd lengths = centroids.colwise().squaredNorm();
  Matrix scores = -2 * centroids.transpose() * points;  // |x - c|^2 - |x|^2
  scores.colwise() += lengths;
  bool moved = false;
  clusters.inertia = 0;
  for (Eigen::Index s = 0; s < points.cols(); ++s) {
    Eigen::Index nearest = 0;
    const double least = scores.col(s).minCoeff(&nearest);
    clusters.inertia += least + points.col(s).squaredNorm();
    auto& member = clusters.member_of[static_cast<std::size_t>(s)];
    moved = moved || member != nearest;
    member = nearest;
  }
  return moved;
}

void move_centroids(const Points& points, const Clusters& clusters, Matrix& centroids) {
  Matrix sums = Matrix::Zero(centroids.rows(), centroids.cols());
  Eigen::VectorXd sizes = Eigen::VectorXd::Zero(centroids.cols());
  for (Eigen::Index s = 0; s < points.cols(); ++s) {
    const int64_t member = clusters.member_of[static_cast<std::size_t>(s)];
    sums.col(member) += points.col(s);
    sizes[member] += 1;
  }
  for (Eigen::Index j = 0; j < centroids.cols(); ++j) {
    if (sizes[j] > 0) centroids.col(j) = sums.col(j) / sizes[j];
  }
}

Clusters run_lloyd(const Points& points, int64_t k, RandomStream stream) {
  Clusters clusters;
  clusters.member_of.assign(static_cast<std::size_t>(points.cols()), -1);
  Matrix centroids = start(points, k, stream);
  for (int64_t step = 0; step < kMostSteps && assign(points, centroids, clusters); ++step) {
    move_centroids(points, clusters, centroids);
  }
  clusters.centroids.assign(centroids.data(), centroids.data() + centroids.size());
  return clusters;
}

}  // namespace

Clusters k_means(std::span<const double> points, int64_t features, int64_t k, int64_t restarts) {
  const Points columns(points.data(), features, static_cast<int64_t>(points.size()) / features);
  Clusters best{.inertia = std::numeric_limits<double>::infinity()};
  for (int64_t r = 0; r < restarts; ++r) {
    auto found = run_lloyd(columns, k, RandomStream(0, Purpose::kArms, static_cast<uint64_t>(r)));
    if (found.inertia < best.inertia) best = std::move(found);
  }
  return best;
}

Arms cluster_arms(std::span<const double> points, int64_t features,
                  const std::vector<bool>& positive, int64_t arms) {
  Matrix scaled = Points(points.data(), features, static_cast<int64_t>(positive.size()));
  for (Eigen::Index f = 0; f < features; ++f) {
    scaled.row(f).array() -= scaled.row(f).mean();
    const double deviation =
        std::sqrt(scaled.row(f).squaredNorm() / static_cast<double>(scaled.cols()));
    if (deviation > 0) scaled.row(f) /= deviation;
  }
  const Clusters clusters = k_means({scaled.data(), points.size()}, features, arms, kRestarts);
  Matrix centroids = Points(clusters.centroids.data(), features, arms);
  for (Eigen::Index f = 0; f < features; ++f) {
    const double low = centroids.row(f).minCoeff();
    const double span = centroids.row(f).maxCoeff() - low;
    centroids.row(f).array() -= low;
    if (span > 0) centroids.row(f) /= span;
  }
  Arms result{.inputs = features};
  result.points.assign(centroids.data(), centroids.data() + centroids.size());
  std::vector<double> sizes(static_cast<std::size_t>(arms));
  result.values.resize(sizes.size());
  for (std::size_t s = 0; s < positive.size(); ++s) {
    const auto member = static_cast<std::size_t>(clusters.member_of[s]);
    sizes[member] += 1;
    result.values[member] += positive[s] ? 1 : 0;
  }
  for (std::size_t a = 0; a < sizes.size(); ++a) result.values[a] /= std::max(1.0, sizes[a]);
  return result;
}

}  // namespace hanse
