// Gradients of a cohort's clients that stay on its device until they have been compared and sent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/model/cohort.hpp"

namespace hanse {

// Made by TorchLibrary::make_cohort_gradients. A table of rows [lines, C, P]. Methods take a value
// for each client, [C], and leave a client with 0 as it was. Memory on the device: the table.
class CohortGradients {
 public:
  virtual ~CohortGradients() = default;

  // line[c] <- gradient, with weight decay, at the cohort's rows in step `number` of the steps put.
  // `counts`: the losses count in Cohort::losses().
  virtual void find(int64_t number, bool counts, std::span<const float> who, int64_t line) = 0;
  // to[c] <- to[c] + factors[c] line[c];  the other adds to the cohort's rows.
  virtual void add(int64_t line, std::span<const float> factors, int64_t to) = 0;
  virtual void move_rows(int64_t line, std::span<const float> factors) = 0;
  virtual void clear(int64_t line) = 0;

  // Sets all rows of the cohort to received().
  virtual void return_rows() = 0;
  // Sets the rows of the first clients to minus these lines: the directions that they send.
  virtual void send(std::span<const int64_t> lines) = 0;
  // The origin of directions: an undefined tensor.
  virtual const at::Tensor& origin() const = 0;

  // A client's row [P], to and from the host's memory. Waits for the device.
  virtual void take(int64_t client, int64_t line, std::span<float> row) const = 0;
  virtual void put(int64_t client, int64_t line, std::span<const float> row) = 0;
  // Inner products [n, n], in float64, of a client's rows in n lines. Waits for the device. Cost: 2
  // n^2 P flops in products [n, L] x [L, n], in memory of their own.
  virtual std::vector<double> gram(int64_t client, std::span<const int64_t> lines) const = 0;
};

}  // namespace hanse
