#include "federated/findings.hpp"

#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "federated/divergence.hpp"

namespace hanse {

int64_t bring(Communicator& comm, std::vector<double>& numbers, int64_t own_bytes) {
  const auto count = std::ssize(numbers);
  numbers.resize(numbers.size() + static_cast<std::size_t>(comm.size()), kElsewhere);
  numbers[static_cast<std::size_t>(count + comm.rank())] = static_cast<double>(own_bytes);
  comm.reduce(std::span(numbers), ReduceOp::kMax, 0);
  const double others = std::accumulate(numbers.begin() + count + 1, numbers.end(), 0.0);
  numbers.resize(static_cast<std::size_t>(count));
  return comm.rank() == 0 ? static_cast<int64_t>(others) : 0;
}

double checked_squared_step(const RoundContext& round, int64_t client, const ClientOutcome& outcome,
                            double squared) {
  if (std::isfinite(squared) && std::isfinite(outcome.loss)) return squared;
  throw diverged(fmt::format("the update of a client is not finite: its norm is {}, its loss {}",
                             number_text(std::sqrt(squared)), number_text(outcome.loss)),
                 client, round.number);
}

void note_training(const RoundContext& round, int64_t client, std::size_t entry,
                   const ClientOutcome& outcome, const FoldResult& folded, double seconds,
                   double limit, Findings& findings) {
  const bool sound = folded.in_range && std::isfinite(outcome.loss + outcome.rate);
  if (!sound && !findings.rejects()) {
    throw diverged(
        fmt::format("the update of a client is not finite or above {:.3g} (its loss is {})", limit,
                    number_text(outcome.loss)),
        client, round.number);
  }
  const auto finite = [](double value) {
    return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
  };
  findings.of(entry, Findings::kLoss) = finite(outcome.loss);
  findings.of(entry, Findings::kSquaredNorm) =
      folded.in_range ? folded.squared_norm : std::numeric_limits<double>::infinity();
  findings.of(entry, Findings::kStatistic) = finite(outcome.rate);
  findings.of(entry, Findings::kSeconds) = seconds;
  if (!findings.has_squares()) return;
  findings.of(entry, Findings::kSquares) = outcome.squares;
  findings.of(entry, Findings::kSamples) = static_cast<double>(outcome.samples);
}

}  // namespace hanse
