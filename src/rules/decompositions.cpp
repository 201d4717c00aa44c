#include "decompositions.hpp"

#include <utility>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>

namespace hanse {

using Eigen::VectorXd;

template <class Matrix>
Cholesky<Matrix>::Cholesky(Matrix symmetric) : held_(std::move(symmetric)), root_(held_) {}

template <class Matrix>
double Cholesky<Matrix>::rcond() const {
  return root_.rcond();
}

template <class Matrix>
VectorXd Cholesky<Matrix>::solve(const VectorXd& b) const {
  return root_.solve(b);
}

template <class Matrix>
VectorXd Cholesky<Matrix>::half_solve(const VectorXd& b) const {
  return root_.matrixL().solve(b);
}

template <class Matrix>
Matrix Cholesky<Matrix>::lower() const {
  return root_.matrixL();
}

template class Cholesky<ByColumns>;
template class Cholesky<ByRows>;

Spectrum spectrum_of(const ByColumns& symmetric) {
  const Eigen::SelfAdjointEigenSolver<ByColumns> solver(symmetric);
  return {solver.eigenvalues(), solver.eigenvectors()};
}

VectorXd eigenvalues_of(const ByColumns& symmetric) {
  return Eigen::SelfAdjointEigenSolver<ByColumns>(symmetric, Eigen::EigenvaluesOnly).eigenvalues();
}

Orthonormal orthonormal(const ByColumns& columns) {
  const Eigen::HouseholderQR<ByColumns> qr(columns);
  const auto n = columns.cols();
  return {qr.householderQ() * ByColumns::Identity(columns.rows(), n),
          qr.matrixQR().topRows(n).triangularView<Eigen::Upper>()};
}

}  // namespace hanse
