#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/client/second_order.hpp"
#include "hanse/rules/newton/symmetric.hpp"
#include "local_objective.hpp"

namespace hanse {

namespace {

class FedNl final : public LocalUpdate {
 public:
  FedNl(const ClientOptions& options, const Federation& federation, Model& model)
      : options_(options.second_order),
        objective_(options, federation, model, "fednl"),
        d_(model.n_params()),
        gradient_(objective_.size()),
        columns_(gradient_.size() * gradient_.size()),
        packed_(static_cast<std::size_t>(packed_size(d_))) {}

  int64_t state_width() const override { return packed_size(d_) + 1; }
  int64_t control_width() const override { return packed_size(d_) + 1; }
  bool control_returns() const override { return false; }
  bool tells_update() const override { return true; }

  ClientOutcome train(const ClientTask& task) override {
    objective_.move_to(task.client, task.row);
    const double loss = objective_.gradient(gradient_);
    measure_hessian();
    float& known = task.state.back();
    const bool whole = known == 0 && options_.hessian_start == "hessian";
    task.control_change.back() =
        correct(task.state.first(packed_.size()), task.control_change, whole);
    known = 1;
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      task.row[i] = static_cast<float>(-gradient_[i]);
    }
    return {.loss = loss, .samples = objective_.samples()};
  }

 private:
  // packed_ <- hess f_i, column by column; what rounding left of asymmetry is averaged out.
  void measure_hessian() {
    const std::size_t d = gradient_.size();
    std::vector<double> unit(d);
    for (std::size_t j = 0; j < d; ++j) {
      unit[j] = 1;
      objective_.hessian_vector(unit, std::span(columns_).subspan(j * d, d));
      unit[j] = 0;
    }
    double* next = packed_.data();
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = i; j < d; ++j) *next++ = (columns_[i * d + j] + columns_[j * d + i]) / 2;
    }
  }

  // Moves H_i [P (P + 1)/2] towards packed_ and leaves by how much in `change`. Returns l_i.
  float correct(std::span<float> h, std::span<float> change, bool whole) {
    for (std::size_t i = 0; i < h.size(); ++i) packed_[i] -= static_cast<double>(h[i]);
    const double distance = whole ? 0 : frobenius_norm(packed_, d_);
    if (!whole) compress();
    const double rate = whole ? 1 : options_.hessian_rate;
    for (std::size_t i = 0; i < h.size(); ++i) {
      const float before = h[i];
      h[i] = static_cast<float>(static_cast<double>(before) + rate * packed_[i]);
      change[i] = h[i] - before;
    }
    return static_cast<float>(distance);
  }

  void compress() {
    if (options_.compressor == "rank") return compress_rank(packed_, d_, options_.rank);
    compress_top(packed_, options_.top > 0 ? options_.top : 8 * d_);
  }

  SecondOrderOptions options_;
  LocalObjective objective_;
  int64_t d_;                     // P
  std::vector<double> gradient_;  // [P]
  std::vector<double> columns_;   // [P, P] of the Hessian
  std::vector<double> packed_;    // [P (P + 1)/2]
};

}  // namespace

std::unique_ptr<LocalUpdate> make_fednl(const ClientOptions& options, const Federation& federation,
                                        Model& model) {
  if (model.n_params() > kMostNewtonParameters) {
    throw InvalidArgument(
        fmt::format("fednl keeps a Hessian a client: it takes up to {} parameters, the model has "
                    "{}",
                    kMostNewtonParameters, model.n_params()),
        "client.update", "client.update = fednew has no such bound");
  }
  return std::make_unique<FedNl>(options, federation, model);
}

}  // namespace hanse
