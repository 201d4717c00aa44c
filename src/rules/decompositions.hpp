// Decompositions of dense matrices in double precision. They are most of what Eigen costs to
// compile: here they are compiled once, for all rules.
#pragma once

#include <Eigen/Cholesky>

namespace hanse {

using ByColumns = Eigen::MatrixXd;
using ByRows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// M = L L^T of a symmetric matrix [n, n], whose lower triangle is read. Cost n^3 / 3 flops; the
// memory is that of the matrix, which L takes the place of. The layout decides the order of sums,
// and with it the last bits.
template <class Matrix>
class Cholesky {
 public:
  explicit Cholesky(Matrix symmetric);
  Cholesky(const Cholesky&) = delete;
  Cholesky& operator=(const Cholesky&) = delete;

  bool exists() const { return root_.info() == Eigen::Success; }  // M is positive definite
  double rcond() const;                                           // estimate of 1 / (|M| |M^-1|)
  Eigen::VectorXd solve(const Eigen::VectorXd& b) const;          // M^-1 b
  Eigen::VectorXd half_solve(const Eigen::VectorXd& b) const;     // L^-1 b
  Matrix lower() const;                                           // L, zeros above its diagonal

 private:
  Matrix held_;
  Eigen::LLT<Eigen::Ref<Matrix>> root_;  // in it
};

extern template class Cholesky<ByColumns>;
extern template class Cholesky<ByRows>;

// Eigenvalues and vectors of a symmetric matrix [n, n], whose lower triangle is read.
struct Spectrum {
  Eigen::VectorXd values;  // [n] ascending
  ByColumns vectors;       // [n, n] a column each, of unit length
};
Spectrum spectrum_of(const ByColumns& symmetric);            // about 9 n^3 flops
Eigen::VectorXd eigenvalues_of(const ByColumns& symmetric);  // about 4/3 n^3 flops

// columns [m, n] = Q R for m >= n. Cost about 4 m n^2 flops.
struct Orthonormal {
  ByColumns q;  // [m, n]
  ByColumns r;  // [n, n], zeros below its diagonal
};
Orthonormal orthonormal(const ByColumns& columns);

}  // namespace hanse
