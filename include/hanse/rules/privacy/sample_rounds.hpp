// What the rounds of a run cost the samples of its clients, where the steps of clients are private
// (private_steps.hpp).
//
// Clients have samples of their own, and steps of a client see no other's: the guarantee of a
// sample is that of its client, and the run's the weakest of all (parallel composition). A client
// with n samples that has been in r rounds has released r x steps sums, each amplified by its rate
// batch / n. Numbers of samples, batches and steps are public and fixed, and so is who takes part:
// the accountant counts the rounds that a client was in, and no amplification by the draw of
// clients.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/options.hpp"
#include "hanse/rules/privacy/private_steps.hpp"

namespace hanse {

// What a client does in a round.
struct ClientSteps {
  int64_t samples = 0;  // 0: it makes no step
  int64_t batch = 0;    // expected samples of a step, at most `samples`
  int64_t steps = 0;    // at most

  double rate() const { return static_cast<double>(batch) / static_cast<double>(samples); }
  auto operator<=>(const ClientSteps&) const = default;
};

struct SampleTerms {
  std::vector<ClientSteps> clients;  // a row a client
  int64_t rounds = 1;    // that a client takes part in at most, for which noise is found
  int64_t n_params = 1;  // that are trained
};

class SampleRounds final : public Stateful {
 public:
  // Without options.noise the least is found for terms.rounds. Throws InvalidArgument as
  // StepNoise::of(), where no noise meets epsilon, and where options.accountant does not apply.
  SampleRounds(const PrivacyOptions& options, SampleTerms terms);

  double multiplier() const { return multiplier_; }  // z
  const StepNoise& noise() const { return noise_; }

  // These clients have taken part in a round.
  void take_part(std::span<const int64_t> clients);
  // All have taken part in so many rounds.
  void take_part_in(int64_t rounds);

  // The largest over the clients, at options.delta. Cost: an account for each pair of a number of
  // samples and of rounds that no other pair outweighs.
  PrivacyCost cost() const;
  double epsilon() const { return epsilon_after(0); }
  // If all took part in `further` rounds more.
  double epsilon_after(int64_t further) const;
  // The epsilon that the run must not exceed: options.max_epsilon, or the one that its noise was
  // found for; 0: none.
  double limit() const;
  // The steps of the client that costs most.
  const ClientSteps& weakest() const;

  // The rounds that noise was found for, on all ranks as on rank 0.
  int64_t planned() const { return terms_.rounds; }
  void plan(int64_t rounds);

 private:
  // Clients that do the same; the one of them that was in the most rounds counts.
  struct Group {
    ClientSteps steps;
    int64_t rounds = 0;
  };
  using EpsilonOf = std::function<std::optional<double>(const PrivacyAccountant& account)>;

  PrivacyAccountant account_of(const Group& group, const StepNoise& noise) const;
  // The largest epsilon of the groups. Those that RDP bounds by what was found are not asked.
  std::optional<double> largest(std::vector<Group> groups, const StepNoise& noise,
                                const EpsilonOf& epsilon_of) const;
  double asked(std::vector<Group> groups, const StepNoise& noise) const;
  std::vector<Group> groups_after(int64_t further) const;
  StepNoise noise_with(double multiplier) const;
  void visit(StateFields& fields) override;

  PrivacyOptions options_;
  SampleTerms terms_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;  // of each client; without samples: none, groups_.size()
  std::vector<int64_t> rounds_;        // of each client
  double multiplier_ = 0;
  StepNoise noise_;
};

}  // namespace hanse
