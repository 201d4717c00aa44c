#include "hanse/rules/bandit/problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <Eigen/Core>
#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

using std::numbers::e;
using std::numbers::pi;

// -sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2) on [0, 1]^6 (Dixon and Szego 1978); the least
// value is -3.32237.
double hartmann(std::span<const double> x) {
  constexpr double kAlpha[4] = {1.0, 1.2, 3.0, 3.2};
  constexpr double kA[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                               {0.05, 10, 17, 0.1, 8, 14},
                               {3, 3.5, 1.7, 10, 17, 8},
                               {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kP[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                               {2329, 4135, 8307, 3736, 1004, 9991},
                               {2348, 1451, 3522, 2883, 3047, 6650},
                               {4047, 8828, 8732, 5743, 1091, 381}};
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    double exponent = 0;
    for (std::size_t j = 0; j < 6; ++j) {
      const double apart = x[j] - 1e-4 * kP[i][j];
      exponent += kA[i][j] * apart * apart;
    }
    sum -= kAlpha[i] * std::exp(-exponent);
  }
  return sum;
}

// 0.1 sum cos(5 pi x_i) - sum x_i^2 on [-1, 1]^8 (Breiman and Cutler 1993); the largest value is
// 0.8.
double cosine(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += 0.1 * std::cos(5 * pi * value) - value * value;
  return sum;
}

// (x2 - 5.1 x1^2 / (4 pi^2) + 5 x1 / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos x1 + 10 on [-5, 10] x
// [0, 15] (Dixon and Szego 1978); the least value is 0.397887.
double branin(std::span<const double> point) {
  const double x = 15 * point[0] - 5;
  const double y = 15 * point[1];
  const double root = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6;
  return root * root + 10 * (1 - 1 / (8 * pi)) * std::cos(x) + 10;
}

// -20 exp(-0.2 sqrt(mean x_i^2)) - exp(mean cos(2 pi x_i)) + 20 + e on [-32.768, 32.768]^d (Ackley
// 1987); the least value is 0.
double ackley(std::span<const double> point) {
  double squares = 0;
  double cosines = 0;
  for (const double u : point) {
    const double x = 32.768 * (2 * u - 1);
    squares += x * x;
    cosines += std::cos(2 * pi * x);
  }
  const auto d = static_cast<double>(point.size());
  return -20 * std::exp(-0.2 * std::sqrt(squares / d)) - std::exp(cosines / d) + 20 + e;
}

// 10 d + sum (x_i^2 - 10 cos(2 pi x_i)) on [-5.12, 5.12]^d (Rastrigin 1974); the least value is 0.
double rastrigin(std::span<const double> point) {
  double sum = 0;
  for (const double u : point) {
    const double x = 5.12 * (2 * u - 1);
    sum += 10 + x * x - 10 * std::cos(2 * pi * x);
  }
  return sum;
}

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

const std::vector<TestFunction>& test_functions() {
  static const std::vector<TestFunction> functions{{ArmSource::kHartmann6, 6, 0, hartmann},
                                                   {ArmSource::kCosine8, 8, -1, cosine},
                                                   {ArmSource::kBranin, 2, 0, branin},
                                                   {ArmSource::kAckley, 0, 0, ackley},
                                                   {ArmSource::kRastrigin, 0, 0, rastrigin}};
  return functions;
}

Arms draw_arms(ArmSource function, int64_t arms, int64_t inputs, bool negate, uint64_t seed) {
  if (arms < 2) {
    throw InvalidArgument(fmt::format("{} arms, at least 2 are needed", arms), "bandit.count");
  }
  const TestFunction& chosen = test_functions()[static_cast<std::size_t>(function)];
  Arms drawn{.inputs = chosen.inputs > 0 ? chosen.inputs : inputs};
  RandomStream stream(seed, Purpose::kArms);
  std::vector<double> point(static_cast<std::size_t>(drawn.inputs));
  for (int64_t a = 0; a < arms; ++a) {
    for (double& u : point) u = chosen.low + (1 - chosen.low) * stream.uniform();
    drawn.points.insert(drawn.points.end(), point.begin(), point.end());
    const double value = chosen.value(point);
    drawn.values.push_back(negate ? -value : value);
  }
  return drawn;
}

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
