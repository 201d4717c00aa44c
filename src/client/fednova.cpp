#include "hanse/client/fednova.hpp"

#include <numeric>

#include "hanse/client/local_update.hpp"
#include "hanse/client/schedule.hpp"

namespace hanse {

double effective_steps(const ClientOptions& options, int64_t round, int64_t samples) {
  const int64_t steps = optimizer_steps(options, samples);
  const bool moves = options.schedule.over == "steps";  // the step size, within the round
  double velocity = 0, sum = 0;                         // of gradients that are all 1
  for (int64_t step = 0; step < steps; ++step) {
    velocity = options.momentum * velocity + 1;
    const double direction =
        options.optimizer.nesterov ? 1 + options.momentum * velocity : velocity;
    sum += (moves ? step_size(options, round, step, steps) / options.lr : 1) * direction;
  }
  return sum;
}

void normalize_by_steps(std::span<const double> taus, std::span<double> coefficients) {
  const double mean = std::inner_product(taus.begin(), taus.end(), coefficients.begin(), 0.0);
  for (std::size_t i = 0; i < taus.size(); ++i) coefficients[i] *= mean / taus[i];
}

}  // namespace hanse
