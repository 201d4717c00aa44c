// The steps of a cohort against its gradients: Cohort::Settings has the formula.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/ATen.h>

#include "device/step_table.hpp"
#include "hanse/model/cohort.hpp"

namespace hanse {

class Descent {
 public:
  // Steps move the first `trained` values of each of rows [C, P].
  Descent(const Cohort::Settings& settings, const at::Tensor& rows, int64_t trained);

  // As Cohort has it.
  void put_parts(std::span<const uint8_t> moves, const at::Tensor& rows);

  // All rows are theta [P], and losses [C] are zero.
  void clear(const at::Tensor& theta, at::Tensor& rows, at::Tensor& losses);
  // The first of `rows` become what clients have received, where it is not theta.
  void receive(std::span<const std::span<const float>> received, at::Tensor& rows,
               const at::Tensor& theta);
  const at::Tensor& received() const { return received_; }  // Cohort::received()
  // Starts from `rows`, which have their values by now.
  void start(const Cohort::Start& start, const at::Tensor& rows);

  // Moves the first n of `rows` [C, P] against their `gradient` [C, P] in the table's step, which
  // had the mean losses [n].
  void step(const StepTable& table, const at::Tensor& means, const at::Tensor& gradient,
            at::Tensor& rows);

  // As Cohort has them.
  int64_t moment_values() const { return moments_of(numbers_.kind) * trained_; }
  void take_moments(std::span<float> moments) const;

  // What chooses the kernels of a step and their addresses.
  struct Form {
    double mu = 0;
    bool own_anchor = false, pulls = false;
  };
  const Form& form() const { return form_; }

 private:
  bool has_slopes() const { return slope_.base > 0; }
  // [n, moments, trained], of the first n clients, on the device
  at::Tensor moments_of_clients(int64_t n) const;
  at::Tensor moving(const StepTable& table, const at::Tensor& gradients) const;
  void find_slopes(const at::Tensor& means);
  void find_scales(const StepTable& table, const at::Tensor& gradient, int64_t clients);

  StepNumbers numbers_;
  double clip_;
  Cohort::Slope slope_;
  int64_t trained_;
  Form form_;
  at::Tensor received_;  // [P], or [C, P] where clients have theirs
  at::Tensor anchor_;    // [C, P] what the rows started from; undefined before it is asked for
  at::Tensor pulls_;     // [C, P]; likewise
  at::Tensor moments_;   // [moments, C, P]; undefined without
  at::Tensor sums_;      // [C, P] of gradients since each client's last step, where they accumulate
  at::Tensor moves_;     // [parts, P] uint8: DescentWork::moves; undefined: all move
  at::Tensor slopes_;    // [C] float64; undefined without
  at::Tensor scales_;    // [C] where they are not the table's; else undefined
};

}  // namespace hanse
