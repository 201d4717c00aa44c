// What the samplers that draw from an urn share.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/rules/sampling/learning.hpp"
#include "urn.hpp"

namespace hanse {

// Draws K of the available by the law, with the weights that make an unbiased sum of them: with
// replacement N/(K q); without, for the j-th (1/p_(j) + K - j)/K, p_(j) its probability among those
// not yet drawn (Zhao et al. 2025, Algorithm 7, telescoped). Without replacement it stops when
// nobody with mass is left. Where not more than K are there, it draws everyone. Cost of a draw: O(K
// (width log rows + log M)).
class UrnSampler : public ClientSampler {
 public:
  Draw draw(int64_t round, int64_t n, RandomStream& stream) override;
  Draw impose(int64_t n, std::span<const int64_t> draws) override;
  double probability(int64_t client) const override { return urn_.mass(law(), client); }
  void toggle(std::span<const int64_t> clients) override { urn_.toggle(clients); }
  const ClientSet& available() const override { return urn_.available(); }

 protected:
  UrnSampler(int64_t clients, int64_t per_round, bool replacement, Urn urn)
      : ClientSampler(clients, per_round), urn_(std::move(urn)), replacement_(replacement) {
    check_per_round(per_round, clients, replacement);
  }
  // The masses of the next draw; over all clients they sum to 1.
  virtual UrnLaw law() const = 0;
  bool takes_everyone(int64_t n) const { return !available().full() && available().size() <= n; }

  Urn urn_;

 private:
  bool replacement_;
};

// A sampler that scales its updates by a bound of the feedback; its state is the urn, the bound and
// what it adds.
class BoundedSampler : public UrnSampler {
 public:
  bool needs_all_clients() const override { return awaits_bound_; }
  void observe_all(std::span<const double> a) override;

 protected:
  // The bound is kept as the field `name` of the state.
  BoundedSampler(const LearningOptions& options, int64_t clients, int64_t per_round, Urn urn,
                 const char* name)
      : UrnSampler(clients, per_round, options.replacement, std::move(urn)),
        options_(options),
        bound_(options.bound == BoundSource::kGiven ? options.a_max : 0),
        name_(name) {}
  // The bound by the a_i of all clients: their largest.
  virtual double bound_of(std::span<const double> a) const;
  virtual void set_bound(double bound) { bound_ = bound; }
  void visit(StateFields& fields) override;

  LearningOptions options_;
  double bound_;  // 0: not known, or every gradient so far was zero
  bool awaits_bound_ = false;

 private:
  const char* name_;
};

}  // namespace hanse
