#include "hanse/rules/bandit/kernel.hpp"

#include <cmath>

#include <fmt/format.h>

#include "bandit/own_set.hpp"
#include "decompositions.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Eigen::Map;

// Eigenvalues or pivots below this share of the largest are rounding.
constexpr double kRank = 1e-12;

// k of all arms [arms, arms].
Matrix kernel_of(const Arms& arms, double length) {
  const Map<const Matrix> points(arms.points.data(), arms.inputs, arms.size());
  Matrix kernel(arms.size(), arms.size());
  for (Eigen::Index i = 0; i < kernel.cols(); ++i) {
    kernel.col(i) = (-(points.colwise() - points.col(i)).colwise().squaredNorm().transpose() /
                     (2 * length * length))
                        .array()
                        .exp();
  }
  return kernel;
}

// Z [rank, arms] with Z^T Z = kernel, by Cholesky's method with pivots. Cost arms rank^2 flops.
Matrix factor_of(const Matrix& kernel) {
  Matrix z(kernel.rows(), kernel.cols());
  Eigen::RowVectorXd left = kernel.diagonal();  // of the diagonal
  Eigen::Index rank = 0, pivot = 0;
  for (; rank < z.rows() && left.maxCoeff(&pivot) > kRank * kernel(0, 0); ++rank) {
    const auto above = z.topRows(rank);
    z.row(rank) =
        (kernel.row(pivot) - above.col(pivot).transpose() * above) / std::sqrt(left[pivot]);
    left -= z.row(rank).cwiseAbs2();
  }
  return z.topRows(rank);
}

// square^{-1/2} columns, in the coordinates of the eigenvectors whose eigenvalues are above
// rounding.
Matrix whitened(const Matrix& square, const Matrix& columns) {
  const auto [values, vectors] = spectrum_of(square);
  const double least = kRank * values[values.size() - 1];
  Eigen::Index kept = 0;
  while (kept < values.size() && values[values.size() - 1 - kept] > least) ++kept;
  const Vector scale = values.tail(kept).cwiseSqrt().cwiseInverse();
  return scale.asDiagonal() * (vectors.rightCols(kept).transpose() * columns);
}

std::shared_ptr<const ArmFeatures> features_of(const Matrix& columns) {
  return std::make_shared<const ArmFeatures>(
      std::vector<double>(columns.data(), columns.data() + columns.size()),
      std::vector<double>(to_index(columns.cols())), StatisticsForm::kPerArm);
}

class KernelPolicy final : public BanditPolicy {
 public:
  KernelPolicy(std::unique_ptr<BanditPolicy> linear, std::shared_ptr<const ArmFeatures> features)
      : linear_(std::move(linear)), features_(std::move(features)) {}

  std::unique_ptr<BanditClient> make_client(int64_t client) const override {
    return linear_->make_client(client);
  }
  int64_t row_width() const override { return linear_->row_width(); }
  void add(const Pulls& pulls, int64_t client, std::span<double> row) const override {
    linear_->add(pulls, client, row);
  }

  double know(std::span<const double> total) override {
    const auto counts = total.first(total.size() / 2);
    dictionary_ = std::ssize(counts) - std::count(counts.begin(), counts.end(), 0.0);
    return linear_->know(total);
  }

  std::vector<double> estimate(std::span<const double> row, int64_t client) const override {
    const auto shift = features_->to_coordinates(linear_->estimate(row, client));
    const Map<const Matrix> phi(features_->all().data(), features_->coordinates(),
                                features_->arms());
    const Vector means = phi.transpose() * Map<const Vector>(shift.data(), std::ssize(shift));
    return {means.begin(), means.end()};
  }

  int64_t dictionary() const override { return dictionary_; }

 private:
  std::unique_ptr<BanditPolicy> linear_;
  std::shared_ptr<const ArmFeatures> features_;
  int64_t dictionary_ = 0;
};

// What all clients together know of the arms, in one dictionary.
struct Embedding {
  std::shared_ptr<const ArmFeatures> features;  // z of the arms
  ConfidenceSet set;
  std::vector<double> outside;   // (k(x, x) - z^T z) / lambda: what the dictionary cannot tell
  std::vector<double> variance;  // sigma^2
};

class DictionaryClient final : public BanditClient {
 public:
  DictionaryClient(const UcbOptions& ucb, std::shared_ptr<const Embedding> common)
      : ucb_(&ucb), common_(std::move(common)), set_(common_->set) {}

  Turn next() const override {
    const ConfidenceSet& known = set_.get();
    std::vector<double> bounds(known.means().begin(), known.means().end());
    for (std::size_t a = 0; a < bounds.size(); ++a) {
      bounds[a] += ucb_->width * std::sqrt(known.squared_widths()[a] + common_->outside[a]);
    }
    const int64_t arm = best_arm(bounds);
    return {.arm = arm, .triggers = sum_ + common_->variance[to_index(arm)] > ucb_->gamma};
  }

 private:
  void learn(int64_t arm, double reward) override {
    sum_ += common_->variance[to_index(arm)];
    set_.observe(arm, reward);
  }

  const UcbOptions* ucb_;
  std::shared_ptr<const Embedding> common_;
  OwnSet set_;
  double sum_ = 0;  // of sigma^2 of the last synchronization at own pulls
};

class DictionaryPolicy final : public BanditPolicy {
 public:
  DictionaryPolicy(const Arms& arms, const UcbOptions& ucb, const KernelOptions& options,
                   int64_t clients)
      : inputs_(static_cast<double>(arms.inputs)),
        ucb_(ucb),
        inclusion_(options.inclusion),
        clients_(static_cast<double>(clients)),
        kernel_(kernel_of(arms, options.length)),
        members_(arms.values.size()) {
    know(std::vector<double>(to_index(row_width())));
  }

  std::unique_ptr<BanditClient> make_client(int64_t) const override {
    return std::make_unique<DictionaryClient>(ucb_, common_);
  }
  int64_t row_width() const override { return 2 * kernel_.cols(); }
  void add(const Pulls& pulls, int64_t, std::span<double> row) const override {
    for (std::size_t i = 0; i < pulls.arms.size(); ++i) {
      add_pull(pulls.arms[i], pulls.rewards[i], row);
    }
  }

  std::span<int64_t> members() override { return members_; }
  void draw(std::span<const int64_t> pulls, const std::function<double()>& uniform,
            std::span<int64_t> members) const override {
    std::vector<int64_t> taken(members.size());
    for (const int64_t arm : pulls) {
      const double chance = std::min(1.0, inclusion_ * common_->variance[to_index(arm)]);
      if (uniform() < chance) taken[to_index(arm)] = 1;
    }
    for (std::size_t a = 0; a < taken.size(); ++a) members[a] += taken[a];
  }

  double know(std::span<const double> total) override;
  std::vector<double> estimate(std::span<const double> row, int64_t) const override {
    ConfidenceSet set(*common_->features, ucb_.lambda);
    set.rebuild(row);
    return {set.means().begin(), set.means().end()};
  }
  int64_t dictionary() const override {
    return std::count_if(members_.begin(), members_.end(), [](int64_t by) { return by > 0; });
  }

 private:
  double inputs_;
  UcbOptions ucb_;
  double inclusion_;
  double clients_;
  Matrix kernel_;                 // [arms, arms]
  std::vector<int64_t> members_;  // [arms] by how many clients an arm's point was taken
  std::shared_ptr<const Embedding> common_;
};

double DictionaryPolicy::know(std::span<const double> total) {
  std::vector<Eigen::Index> points;
  double uploaded = 0;
  for (std::size_t a = 0; a < members_.size(); ++a) {
    if (members_[a] > 0) points.push_back(static_cast<Eigen::Index>(a));
    uploaded += static_cast<double>(members_[a]);
  }
  Matrix z = Matrix::Zero(1, kernel_.cols());  // without points: one feature that says nothing
  if (!points.empty()) {
    const Matrix rows = kernel_(points, Eigen::all);
    z = whitened(rows(Eigen::all, points), rows);
  }
  auto features = features_of(z);
  Embedding known{features, {*features, ucb_.lambda}, {}, {}};
  known.set.rebuild(total);
  for (Eigen::Index a = 0; a < z.cols(); ++a) {
    const double length = z.col(a).squaredNorm();
    known.outside.push_back(std::max(0.0, 1 - length) / ucb_.lambda);
    known.variance.push_back(known.outside.back() + known.set.squared_widths()[to_index(a)]);
  }
  common_ = std::make_shared<const Embedding>(std::move(known));
  const auto size = static_cast<double>(points.size());
  return uploaded * inputs_ + clients_ * (size * inputs_ + 2 * (size * size + size));
}

}  // namespace

void check_options(const KernelOptions& options) {
  const auto require = [](bool holds, const char* option, double value, const char* range) {
    if (!holds) throw InvalidArgument(fmt::format("{} is out of range", value), option, range);
  };
  require(options.length > 0 && std::isfinite(options.length), "bandit.kernel-length",
          options.length, "it must be above 0");
  require(options.inclusion >= 0 && std::isfinite(options.inclusion), "bandit.inclusion",
          options.inclusion, "it must be at least 0");
}

std::unique_ptr<BanditPolicy> make_kernel_policy(const Arms& arms, const UcbOptions& ucb,
                                                 const KernelOptions& kernel, int64_t clients) {
  const auto features = features_of(factor_of(kernel_of(arms, kernel.length)));
  UcbOptions options = ucb;
  options.sqrt_beta = ucb.width;
  const double scalars = static_cast<double>((clients + 1) * (arms.inputs + 1));
  return std::make_unique<KernelPolicy>(
      make_linear_policy({.ucb = options,
                          .model = [=](int64_t) { return LinearModel{features}; },
                          .scalars = [=](double pulls) { return pulls * scalars; }}),
      features);
}

std::unique_ptr<BanditPolicy> make_dictionary_policy(const Arms& arms, const UcbOptions& ucb,
                                                     const KernelOptions& kernel, int64_t clients) {
  return std::make_unique<DictionaryPolicy>(arms, ucb, kernel, clients);
}

}  // namespace hanse
