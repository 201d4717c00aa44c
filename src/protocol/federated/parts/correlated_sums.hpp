// The sums of the last rounds that noise correlated over rounds goes out with (rules/privacy/
// correlation.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "hanse/base/cipher.hpp"
#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Each rank keeps its own updates' sums. Rank 0 has a mask of uniform integers in its ones before
// the first update, and takes it away from the combination of all rounds, where noise stands: so a
// run of one rank has no plain total either.
class CorrelatedSums final : public Stateful {
 public:
  // `numerators` must outlive it. Memory: P int64 for each of them, on rank 0 as many float64.
  // Throws IoError when there is not so much.
  CorrelatedSums(const std::vector<int64_t>& numerators, Communicator& comm, int64_t n_params);

  // `mask`: the key of the round's mask, which is kept as long as its sum.
  void begin(const CipherKey& mask);
  void add(std::span<const int64_t> update);
  // y <- y + sum_j n_j X_{t-j} of this rank, modulo 2^64. Cost: a pass over P for each band, and on
  // rank 0 P random words.
  void encode(std::span<int64_t> y);
  // Rank 0: the estimate of the round's sum, from all ranks' y. It holds until the next call.
  std::span<const double> decode(std::span<const int64_t> y);

  // Rank 0 takes over all ranks' sums. Collective. The sums over the ranks stay as they are.
  void collect();
  void share();
  // No round follows.
  void forget();

 private:
  void visit(StateFields& fields) override;

  const std::vector<int64_t>& numerators_;
  Communicator& comm_;
  std::size_t n_params_;
  std::deque<std::vector<int64_t>> sums_;      // [P] X_t, X_{t-1}, ... with rank 0's masks
  std::vector<CipherKey> masks_;               // rank 0: their keys
  std::deque<std::vector<double>> estimates_;  // [P] rank 0: of X_t, X_{t-1}, ...
};

}  // namespace hanse
