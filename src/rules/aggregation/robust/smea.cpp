#include <algorithm>

#include "covariance.hpp"
#include "rules.hpp"
#include "sets.hpp"

namespace hanse::robust {

namespace {

// A set costs the largest variance of its rows, each counted alike. That in any direction bounds it
// from below, and the sum of squared deviations grows with each row. The directions are those in
// which all rows vary most.
class LeastCovariance final : public SetSearch {
 public:
  LeastCovariance(const GramView& gram, std::size_t size)
      : SetSearch(gram.n, size),
        gram_(gram),
        shadows_(top_shadows(gram, std::min<Eigen::Index>(kDirections, gram.n))),
        sums_(1, Sums::Zero(shadows_.cols(), 2)),
        rounding_(1e-10 * shadows_.squaredNorm() + 1e-12 * matrix_of(gram).diagonal().maxCoeff()) {}

 private:
  static constexpr int kDirections = 4;
  using Sums = Eigen::Array<double, Eigen::Dynamic, 2, Eigen::ColMajor, kDirections, 2>;

  double add(const Places& chosen) override {
    const auto row = shadows_.row(static_cast<Eigen::Index>(chosen.back())).transpose().array();
    Sums sums = sums_.back();
    sums.col(0) += row;
    sums.col(1) += row.square();
    sums_.push_back(sums);
    const double most =
        (sums.col(1) - sums.col(0).square() / static_cast<double>(chosen.size())).maxCoeff();
    return (most - rounding_) / static_cast<double>(size());
  }
  void forget() override { sums_.pop_back(); }

  double cost(const Places& chosen, double) override {
    std::vector<double> entries;
    for (const std::size_t i : chosen) {
      for (const std::size_t j : chosen) entries.push_back(gram_(i, j));
    }
    const auto n = static_cast<Eigen::Index>(size());
    const auto equal = Eigen::VectorXd::Constant(n, 1 / static_cast<double>(n));
    return largest_variance({entries, size()}, equal);
  }

  GramView gram_;
  ByColumns shadows_;       // [n, directions]
  std::vector<Sums> sums_;  // of shadows and of their squares, of the first rows that are chosen
  double rounding_;         // more than that of a sum of squares
};

}  // namespace

// SMEA (Allouah et al. 2023, ByzFL): the mean of those n - f rows whose covariance has the least
// largest eigenvalue, the lexicographically first of such sets. Cost: at most C(n, f) eigenvalue
// problems of size n - f, and few where byzantine rows are farther away than honest ones.
RobustRule smea() {
  return {.name = "smea",
          .summary = "robust: mean of the set of least variance (Allouah et al. 2023)",
          .bound = {2, 1, "Allouah et al. 2023"},
          .weigh = mean_of_best<LeastCovariance>,
          .lacks = too_many_sets,
          .chooses = true,
          .matrices = 5};
}

}  // namespace hanse::robust
