// Draws in which every available client is as likely as any other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

class EvenSampler : public ClientSampler {
 public:
  EvenSampler(int64_t clients, int64_t per_round)
      : ClientSampler(clients, per_round), available_(clients) {}

  double probability(int64_t) const override { return 1 / static_cast<double>(clients()); }
  bool even() const override { return true; }
  void toggle(std::span<const int64_t> changed) override;
  const ClientSet& available() const override { return available_; }
  Draw impose(int64_t n, std::span<const int64_t> draws) override;

 protected:
  // How many participants a draw of n has.
  virtual int64_t participants(int64_t n) const;
  // Throws InvalidArgument: a draw of n cannot have so many participants.
  virtual void check_number(int64_t n, int64_t drawn) const;
  // The draw of these clients, with weights that make sums unbiased.
  virtual Draw even_draw(std::vector<int64_t> chosen) const;

  // These clients, each with the weight; everyone, where they are all who are available.
  Draw weighted(std::vector<int64_t> chosen, double weight) const;
  void visit(StateFields& fields) override;

  ClientSet available_;
};

}  // namespace hanse
