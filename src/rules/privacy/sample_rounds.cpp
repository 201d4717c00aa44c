#include "hanse/rules/privacy/sample_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

int64_t most_samples(const std::vector<ClientSteps>& clients) {
  int64_t most = 1;
  for (const ClientSteps& client : clients) most = std::max(most, client.samples);
  return most;
}

}  // namespace

SampleRounds::SampleRounds(const PrivacyOptions& options, SampleTerms terms)
    : options_(options), terms_(std::move(terms)), rounds_(terms_.clients.size()) {
  std::map<ClientSteps, std::size_t> known;
  for (const ClientSteps& client : terms_.clients) {
    if (client.samples > 0 && known.emplace(client, groups_.size()).second) {
      groups_.push_back({client});
    }
  }
  for (const ClientSteps& client : terms_.clients) {
    const auto found = known.find(client);
    group_of_.push_back(found == known.end() ? groups_.size() : found->second);
  }
  if (groups_.empty()) throw InvalidArgument("no client has samples", "data.path");
  plan(terms_.rounds);
}

void SampleRounds::plan(int64_t rounds) {
  terms_.rounds = rounds;
  std::vector<Group> planned = groups_;
  for (Group& group : planned) group.rounds = rounds;
  if (options_.noise) {
    multiplier_ = *options_.noise;
  } else {
    constexpr double kLess = 1 - 0x1p-30;  // the sum must not exceed it in its last digits
    const double most =
        options_.step.exponent ? noise_with(0).lattice.most_multiplier() : kMostMultiplier;
    multiplier_ = least_noise(
        kLess * options_.epsilon, [&](double z) { return asked(planned, noise_with(z)); },
        std::min(kMostMultiplier, most));
  }
  noise_ = noise_with(multiplier_);
  asked({planned.front()}, noise_);  // throws where the accountant does not apply
}

StepNoise SampleRounds::noise_with(double multiplier) const {
  return StepNoise::of(options_, multiplier, terms_.n_params, most_samples(terms_.clients));
}

PrivacyAccountant SampleRounds::account_of(const Group& group, const StepNoise& noise) const {
  const ClientSteps& of = group.steps;
  const bool draws = of.batch < of.samples;
  PrivacyAccountant account({.attendance = draws ? Attendance::kPoisson : Attendance::kFull,
                             .clients = of.samples,
                             .per_round = of.batch,
                             .mechanism = noise.mechanism,
                             .n_params = terms_.n_params});
  account.spend(noise.released(), group.rounds * of.steps);
  return account;
}

std::optional<double> SampleRounds::largest(std::vector<Group> groups, const StepNoise& noise,
                                            const EpsilonOf& epsilon_of) const {
  // Higher rates first: who makes no more steps than one before costs no more.
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return std::pair(-a.steps.rate(), -a.rounds * a.steps.steps) <
           std::pair(-b.steps.rate(), -b.rounds * b.steps.steps);
  });
  std::vector<std::pair<double, PrivacyAccountant>> accounts;
  int64_t most_steps = -1;
  for (const Group& group : groups) {
    const int64_t steps = group.rounds * group.steps.steps;
    if (steps <= most_steps) continue;
    most_steps = steps;
    const PrivacyAccountant account = account_of(group, noise);
    accounts.emplace_back(account.rdp(options_.delta).epsilon, account);
  }
  std::ranges::stable_sort(accounts, std::greater(), [](const auto& one) { return one.first; });
  double most = 0;
  for (const auto& [by_rdp, account] : accounts) {
    if (by_rdp <= most) break;
    const std::optional<double> epsilon = epsilon_of(account);
    if (!epsilon) return {};
    most = std::max(most, *epsilon);
  }
  return most;
}

double SampleRounds::asked(std::vector<Group> groups, const StepNoise& noise) const {
  return *largest(std::move(groups), noise, [this](const PrivacyAccountant& account) {
    return account.epsilon(options_.accountant, options_.delta);
  });
}

std::vector<SampleRounds::Group> SampleRounds::groups_after(int64_t further) const {
  std::vector<Group> groups = groups_;
  for (Group& group : groups) group.rounds += further;
  return groups;
}

void SampleRounds::take_part(std::span<const int64_t> clients) {
  for (const int64_t client : clients) {
    const int64_t rounds = ++rounds_[to_index(client)];
    const std::size_t group = group_of_[to_index(client)];
    if (group < groups_.size()) groups_[group].rounds = std::max(groups_[group].rounds, rounds);
  }
}

void SampleRounds::take_part_in(int64_t rounds) {
  for (int64_t& of : rounds_) of += rounds;
  for (Group& group : groups_) group.rounds += rounds;
}

PrivacyCost SampleRounds::cost() const {
  PrivacyCost cost;
  const double delta = options_.delta;
  largest(groups_, noise_, [&](const PrivacyAccountant& account) {
    const EpsilonBound found = account.rdp(delta);
    if (found.epsilon >= cost.rdp.epsilon) cost.rdp = found;
    return std::optional(found.epsilon);
  });
  cost.zcdp = largest(groups_, noise_, [&](const auto& account) { return account.zcdp(delta); });
  cost.pld = largest(groups_, noise_, [&](const auto& account) { return account.pld(delta); });
  return cost;
}

double SampleRounds::epsilon_after(int64_t further) const {
  return asked(groups_after(further), noise_);
}

double SampleRounds::limit() const {
  if (options_.max_epsilon > 0) return options_.max_epsilon;
  return options_.noise ? 0 : options_.epsilon;
}

const ClientSteps& SampleRounds::weakest() const {
  return std::ranges::max_element(
             groups_, {},
             [this](const Group& group) {
               return account_of({group.steps, std::max<int64_t>(1, group.rounds)}, noise_)
                   .rdp(options_.delta)
                   .epsilon;
             })
      ->steps;
}

void SampleRounds::visit(StateFields& fields) {
  int64_t planned = terms_.rounds;
  fields.one("planned", planned);
  fields.fixed("rounds", std::span<int64_t>(rounds_));
  if (!fields.loads()) return;
  plan(planned);
  for (std::size_t client = 0; client < rounds_.size(); ++client) {
    const std::size_t group = group_of_[client];
    if (group < groups_.size()) {
      groups_[group].rounds = std::max(groups_[group].rounds, rounds_[client]);
    }
  }
}

}  // namespace hanse
