#include "hanse/model/cohort_gradients.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "device/device.hpp"
#include "device/download.hpp"

namespace hanse {

namespace {

constexpr int64_t kBlock = int64_t{1} << 20;  // values of a row that are float64 at once

class CohortGradientsOfTensors final : public CohortGradients {
 public:
  CohortGradientsOfTensors(Cohort& cohort, int64_t lines, double weight_decay)
      : cohort_(cohort),
        weight_decay_(static_cast<float>(weight_decay)),
        lines_(at::zeros({lines, cohort.rows().size(0), cohort.rows().size(1)},
                         cohort.rows().options())) {}

  void find(int64_t number, bool counts, std::span<const float> who, int64_t line) override {
    at::Tensor gradient = cohort_.gradients(number, counts);
    const at::NoGradGuard no_grad;
    if (weight_decay_ > 0) gradient = gradient + weight_decay_ * cohort_.rows();
    lines_[line].copy_(at::where(on_device(who) != 0, gradient, lines_[line]));
  }

  void add(int64_t line, std::span<const float> factors, int64_t to) override {
    add_to(lines_[to], line, factors);
  }
  void move_rows(int64_t line, std::span<const float> factors) override {
    add_to(cohort_.rows(), line, factors);
  }
  void clear(int64_t line) override { lines_[line].zero_(); }

  void return_rows() override {
    const at::NoGradGuard no_grad;
    cohort_.rows().copy_(cohort_.received().expand_as(cohort_.rows()));
  }

  void send(std::span<const int64_t> lines) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto client = static_cast<int64_t>(i);
      cohort_.rows()[client].copy_(lines_[lines[i]][client]).neg_();
    }
  }
  const at::Tensor& origin() const override { return nothing_; }

  void take(int64_t client, int64_t line, std::span<float> row) const override {
    download(lines_[line][client], row.data());
  }
  void put(int64_t client, int64_t line, std::span<const float> row) override {
    lines_[line][client].copy_(
        at::from_blob(const_cast<float*>(row.data()), {std::ssize(row)}, at::kFloat));
  }

  std::vector<double> gram(int64_t client, std::span<const int64_t> lines) const override {
    const auto n = std::ssize(lines);
    const at::Tensor places =
        at::from_blob(const_cast<int64_t*>(lines.data()), {n}, at::kLong).to(lines_.device());
    const at::Tensor all = lines_.select(1, client);  // [lines, P]
    at::Tensor sum = at::zeros({n, n}, lines_.options().dtype(at::kDouble));
    for (int64_t begin = 0; begin < all.size(1); begin += kBlock) {
      const int64_t length = std::min(kBlock, all.size(1) - begin);
      const at::Tensor rows = all.narrow(1, begin, length).index_select(0, places).to(at::kDouble);
      sum.add_(at::mm(rows, rows.t()));
    }
    const at::Tensor on_host = downloaded(sum);
    const auto* first = on_host.data_ptr<double>();
    return {first, first + n * n};
  }

 private:
  at::Tensor on_device(std::span<const float> values) const {
    return at::from_blob(const_cast<float*>(values.data()), {std::ssize(values), 1}, at::kFloat)
        .to(lines_.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  }

  // 0 NaN is NaN, and a client that rests may have diverged.
  void add_to(const at::Tensor& rows, int64_t line, std::span<const float> factors) const {
    const at::NoGradGuard no_grad;
    const at::Tensor each = on_device(factors);
    rows.add_(at::where(each != 0, lines_[line] * each, at::zeros({}, lines_.options())));
  }

  Cohort& cohort_;
  float weight_decay_;
  at::Tensor lines_;    // [lines, C, P]
  at::Tensor nothing_;  // undefined
};

}  // namespace

std::unique_ptr<CohortGradients> make_cohort_gradients(Cohort& cohort, int64_t lines,
                                                       double weight_decay) {
  return std::make_unique<CohortGradientsOfTensors>(cohort, lines, weight_decay);
}

}  // namespace hanse
