// What the clients of a cohort draw while they train: masks of dropout, made on the device with the
// bits of the host's, and seeds for networks that draw by themselves.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "device/step_table.hpp"
#include "hanse/base/random.hpp"
#include "hanse/model/cohort.hpp"
#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

class CohortNoise {
 public:
  // For C clients with batches of up to B samples. `seeds`: numbers that a step of a client draws
  // behind the masks.
  CohortNoise(const std::vector<CohortForward::Dropout>& dropouts, int64_t seeds, int64_t clients,
              int64_t batch, const at::TensorOptions& on_device);

  // Starts the streams of the first clients, which have these keys; the others never draw.
  void start(std::span<const Cohort::NoiseKey> keys);

  // Prepares the next steps, with so many samples [steps, C]. Returns StepTable::drawn() of them:
  // for each dropout what its stream has drawn before, then the seeds.
  std::vector<int64_t> put_steps(std::span<const int64_t> counts);
  // Numbers of a client in a step's drawn().
  int64_t numbers() const { return std::ssize(dropouts_) + static_cast<int64_t>(seeds_a_step_); }

  // Draws the masks of the table's step, for the first `clients`.
  void draw(const StepTable& table, int64_t clients);

  // [C, B, width] for each dropout, in the order of Model's, a client's samples of one dropout
  // after the other; behind them stands what earlier steps have left. The tensors stay where they
  // are.
  std::span<const at::Tensor> masks() const { return masks_; }
  // [1] the table's first seed of a client, on the device.
  at::Tensor seed_of(const StepTable& table, int64_t client) const;
  // With the step's first seeds, or those behind so many others.
  CohortForward::StepOfClients of_clients(int64_t step, int64_t clients, int64_t seed = 0) const;

 private:
  void draw_seeds(std::size_t first);

  std::vector<CohortForward::Dropout> dropouts_;
  std::size_t seeds_a_step_;
  int64_t clients_, batch_;
  at::Tensor keys_;                    // [C, 3] DropWork::streams
  std::vector<int64_t> drawn_;         // [C] values drawn from them behind the steps put
  std::vector<RandomStream> streams_;  // [C]
  std::vector<at::Tensor> masks_;
  // For the steps put:
  std::vector<int64_t> counts_;  // [steps, C] samples
  std::vector<uint64_t> seeds_;  // [seeds a step, steps, C] CohortForward::StepOfClients
};

}  // namespace hanse
