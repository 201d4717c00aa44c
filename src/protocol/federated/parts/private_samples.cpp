#include "hanse/protocol/private_samples.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

PrivateSamples::PrivateSamples(SamplePrivacySetup setup, Communicator& comm)
    : setup_(std::move(setup)),
      comm_(comm),
      rounds_(setup_.options, setup_.terms),
      secret_(setup_.key),
      steps_(std::make_shared<PrivateSteps>()) {
  setup_.key = {};
  take_secret();
}

void PrivateSamples::take_secret() {
  steps_->noise = rounds_.noise();
  steps_->secret = secret_.key(RoundSecret::Use::kSteps);
}

void PrivateSamples::trained(const TrainedRound& round) {
  std::vector<int64_t> clients;
  for (const Assignment& task : round.plan.entries()) clients.push_back(task.client);
  rounds_.take_part(clients);
  epsilon_ = rounds_.epsilon();
}

void PrivateSamples::finishes() {
  ++finished_;
  secret_.move_on();
  take_secret();
}

std::string PrivateSamples::end() const {
  const double most = rounds_.limit();
  if (finished_ >= setup_.rounds || most == 0 || rounds_.epsilon_after(1) <= most) return "";
  return fmt::format("a further round could exceed privacy.{} = {}",
                     setup_.options.max_epsilon > 0 ? "max-epsilon" : "epsilon", most);
}

void PrivateSamples::add_columns(Columns& columns) const {
  columns.add_to_rounds([this] {
    return Metrics{{"privacy_epsilon", epsilon_},
                   {"clip", steps_->noise.clip},
                   {"noise_sd", steps_->noise.deviation()}};
  });
  columns.add_to_summary([this] {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    const PrivacyCost cost = rounds_.cost();
    const StepNoise& noise = rounds_.noise();
    const ClientSteps& weakest = rounds_.weakest();
    return Metrics{{"privacy_epsilon_rdp", cost.rdp.epsilon},
                   {"privacy_best_order", cost.rdp.order},
                   {"privacy_epsilon_zcdp", cost.zcdp.value_or(kUnknown)},
                   {"privacy_epsilon_pld", cost.pld.value_or(kUnknown)},
                   {"privacy_delta", setup_.options.delta},
                   {"privacy_noise_multiplier", rounds_.multiplier()},
                   {"privacy_variance", static_cast<double>(noise.variance)},
                   {"privacy_step_exponent", static_cast<double>(noise.lattice.exponent)},
                   {"privacy_sensitivity", static_cast<double>(noise.lattice.bound)},
                   {"privacy_rate", weakest.rate()},
                   {"privacy_steps_a_round", static_cast<double>(weakest.steps)},
                   {"privacy_seed_known", setup_.options.seed.of_system ? 0.0 : 1.0}};
  });
}

void PrivateSamples::share() {
  std::array numbers{finished_, rounds_.planned()};
  comm_.bcast(std::span(numbers), 0);
  finished_ = numbers[0];
  if (numbers[1] != rounds_.planned()) rounds_.plan(numbers[1]);
  auto present = secret_.present().words();
  comm_.bcast(std::span(present), 0);
  secret_.set(CipherKey::of_words(present));
  take_secret();
}

// A run whose noise was found for an epsilon goes beyond it by another limit alone.
void PrivateSamples::require_limit() const {
  const double most = rounds_.limit();
  if (most == 0 || setup_.options.max_epsilon > 0 || setup_.terms.rounds <= rounds_.planned()) {
    return;
  }
  throw InvalidArgument(
      fmt::format("the noise was found for privacy.epsilon = {} over {} rounds of a client", most,
                  rounds_.planned()),
      "run.rounds", "privacy.max-epsilon lets the run go further, up to it");
}

void PrivateSamples::visit(StateFields& fields) {
  fields.part("rounds", rounds_);
  fields.one("finished", finished_);
  fields.one("epsilon", epsilon_);
  fields.part("secret", secret_);
  if (fields.loads()) require_limit();
}

}  // namespace hanse
