#include "hanse/client/local_update.hpp"

#include <algorithm>

#include "hanse/base/decay.hpp"

namespace hanse {

int64_t local_steps(const ClientOptions& options, int64_t samples) {
  if (options.steps > 0) return options.steps;
  const int64_t batch = options.batch > 0 ? std::min(options.batch, samples) : samples;
  return options.epochs * ((samples + batch - 1) / batch);
}

double learning_rate(const ClientOptions& options, int64_t round) {
  return stepwise_decay(options.lr, options.lr_decay, options.lr_decay_every, round);
}

double feedback_scale(const ClientOptions& options, int64_t round, int64_t samples) {
  if (options.kind == "scaffold") return 1;
  const double lr = learning_rate(options, round);
  return 1 / (lr * lr * static_cast<double>(local_steps(options, samples)));
}

double propfair_slope(const PropfairOptions& options, double loss) {
  if (options.base <= 0) return 1;
  const double room = options.base - loss;  // M - F
  if (room >= PropfairOptions::kLeastRoom) return 1 / room;
  return 1 / (options.reference ? options.base : PropfairOptions::kLeastRoom);
}

}  // namespace hanse
