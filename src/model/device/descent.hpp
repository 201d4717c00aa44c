// The steps of a cohort against its gradients: Cohort::Settings has the formula.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/ATen.h>

#include "hanse/model/cohort.hpp"

namespace hanse {

class Descent {
 public:
  // Steps move the first `trained` values of each of rows [C, P].
  Descent(const Cohort::Settings& settings, const at::Tensor& rows, int64_t trained);

  // All rows are theta [P], and losses [C] are zero.
  void clear(const at::Tensor& theta, at::Tensor& rows, at::Tensor& losses);
  // The first of `rows` become what clients have received, where it is not theta.
  void receive(std::span<const std::span<const float>> received, at::Tensor& rows,
               const at::Tensor& theta);
  const at::Tensor& received() const { return received_; }  // Cohort::received()
  // Starts from `rows`, which have their values by now.
  void start(const Cohort::Start& start, const at::Tensor& rows);

  // Moves the first `clients` of `rows` [C, P] with rates [C]; overwrites their `gradient` [C, P].
  void step(at::Tensor& gradient, const at::Tensor& rates, at::Tensor& rows, int64_t clients) const;

  // What chooses the kernels of a step and their addresses.
  struct Form {
    double mu = 0;
    bool own_anchor = false, pulls = false;
  };
  const Form& form() const { return form_; }

 private:
  double weight_decay_, momentum_, clip_;
  int64_t trained_;
  bool nesterov_;
  Form form_;
  at::Tensor received_;  // [P], or [C, P] where clients have theirs
  at::Tensor anchor_;    // [C, P] what the rows started from; undefined before it is asked for
  at::Tensor pulls_;     // [C, P]; likewise
  at::Tensor velocity_;  // [C, P], with momentum
};

}  // namespace hanse
