#include <unordered_map>

#include <Eigen/Dense>
#include <cblas.h>

#include "hanse/client/stream_fit.hpp"

namespace hanse {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class RidgeFit final : public StreamFit {
 public:
  RidgeFit(int64_t inputs, int64_t outputs, double ridge, RidgeData data)
      : inputs_(inputs), outputs_(outputs), ridge_(ridge), data_(data) {}

  void fit(int64_t node, const Batch& batch, RandomStream&, std::span<float> row) override {
    const Matrix x = inputs_of(batch);
    if (data_ == RidgeData::kBatch) {
      Matrix weights = weights_of(row);
      improve(x, targets_of(batch), x / ridge_, weights);
      write(weights, row);
      return;
    }
    Memory& memory = memory_of(node);
    Matrix h(x.rows(), x.cols());
    cblas_dsymm(CblasRowMajor, CblasRight, CblasUpper, as_int(x.rows()), as_int(x.cols()), 1.0,
                memory.inverse.data(), as_int(x.cols()), x.data(), as_int(x.cols()), 0.0, h.data(),
                as_int(x.cols()));
    const Eigen::LLT<Matrix> root = improve(x, targets_of(batch), h, memory.weights);
    root.matrixL().solveInPlace(h);  // H' S^-1 H = (L^-1 H)' (L^-1 H)
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, as_int(x.cols()), as_int(x.rows()), -1.0,
                h.data(), as_int(x.cols()), 1.0, memory.inverse.data(), as_int(x.cols()));
    write(memory.weights, row);
  }

  bool remembers() const override { return data_ == RidgeData::kAll; }

 private:
  struct Memory {
    Matrix inverse;  // G [D, D], the upper triangle
    Matrix weights;  // W [outputs, D]
  };

  static int as_int(Eigen::Index n) { return static_cast<int>(n); }

  Memory& memory_of(int64_t node) {
    const auto [found, is_new] = memories_.try_emplace(node);
    if (is_new) {
      found->second.inverse = Matrix::Identity(inputs_ + 1, inputs_ + 1) / ridge_;
      found->second.weights = Matrix::Zero(outputs_, inputs_ + 1);
    }
    return found->second;
  }

  // W += (Y - X W')' S^-1 H. Returns the Cholesky root L of S = I + H X'.
  static Eigen::LLT<Matrix> improve(const Matrix& x, const Matrix& y, const Matrix& h,
                                    Matrix& weights) {
    Matrix s = h * x.transpose();
    s.diagonal().array() += 1;
    Eigen::LLT<Matrix> root(s);
    const Matrix residual = y - x * weights.transpose();
    weights += root.solve(residual).transpose() * h;
    return root;
  }

  // [rows, inputs + 1], the last column ones
  Matrix inputs_of(const Batch& batch) const {
    Matrix x(batch.rows, inputs_ + 1);
    x.leftCols(inputs_) =
        Eigen::Map<const Floats>(batch.features, batch.rows, inputs_).cast<double>();
    x.col(inputs_).setOnes();
    return x;
  }

  Matrix targets_of(const Batch& batch) const {
    Matrix y = Matrix::Zero(batch.rows, outputs_);
    for (int64_t r = 0; r < batch.rows; ++r) {
      if (batch.labels == nullptr) {
        for (int64_t o = 0; o < outputs_; ++o) y(r, o) = batch.targets[r * outputs_ + o];
      } else if (outputs_ == 1) {
        y(r, 0) = batch.labels[r] == 1 ? 1 : -1;
      } else {
        y(r, batch.labels[r]) = 1;
      }
    }
    return y;
  }

  Matrix weights_of(std::span<const float> row) const {
    const float* bias = row.data() + outputs_ * inputs_;
    Matrix weights(outputs_, inputs_ + 1);
    weights << Eigen::Map<const Floats>(row.data(), outputs_, inputs_).cast<double>(),
        Eigen::Map<const Eigen::VectorXf>(bias, outputs_).cast<double>();
    return weights;
  }

  void write(const Matrix& weights, std::span<float> row) const {
    float* bias = row.data() + outputs_ * inputs_;
    Eigen::Map<Floats>(row.data(), outputs_, inputs_) = weights.leftCols(inputs_).cast<float>();
    Eigen::Map<Eigen::VectorXf>(bias, outputs_) = weights.col(inputs_).cast<float>();
  }

  int64_t inputs_, outputs_;
  double ridge_;
  RidgeData data_;
  std::unordered_map<int64_t, Memory> memories_;  // by node
};

}  // namespace

std::unique_ptr<StreamFit> make_ridge_fit(int64_t inputs, int64_t outputs, double ridge,
                                          RidgeData data) {
  return std::make_unique<RidgeFit>(inputs, outputs, ridge, data);
}

}  // namespace hanse
