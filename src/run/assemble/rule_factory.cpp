#include "rule_factory.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/protocol/checked_rules.hpp"
#include "hanse/rules/attack/forged_feedback.hpp"
#include "privacy.hpp"

namespace hanse {

std::unique_ptr<ClientSampler> RuleFactory::sampler() const {
  auto make = private_sampler_maker(job_, federation_, privacy_);
  if (lies()) {
    make = [honest = make, &job = job_, attackers = attackers()] {
      return forge_feedback(honest(), job.attack, attackers);
    };
  }
  if (!job_.run.check_rules) return make();
  return checked_sampler("sampler.kind = " + job_.sampler.kind, std::move(make), round_);
}

std::unique_ptr<ServerOptimizer> RuleFactory::optimizer(int64_t n_params) const {
  auto make = [&job = job_, clients = federation_.clients(), n_params] {
    return make_optimizer(job, clients, n_params);
  };
  if (!job_.run.check_rules) return make();
  return checked_optimizer("server.optimizer = " + job_.server.optimizer, std::move(make), n_params,
                           round_);
}

std::unique_ptr<Aggregator> RuleFactory::aggregator(double participation) const {
  const auto all = static_cast<double>(federation_.clients());
  require_participants(job_, federation_.clients(), std::llround(participation * all));
  auto make = [&job = job_, clients = federation_.clients(), participation, lies = lies(),
               attackers = attackers()] {
    auto rule = make_aggregator(job, clients, participation);
    return lies ? forge_losses(std::move(rule), job.attack, attackers) : std::move(rule);
  };
  if (!job_.run.check_rules) return make();
  return checked_aggregator("aggregator.kind = " + job_.aggregator.kind, std::move(make), round_);
}

// Do some clients lie about themselves?
bool RuleFactory::lies() const { return job_.attack.is_on() && job_.attack.feedback != 1; }

std::vector<int64_t> RuleFactory::attackers() const {
  return attacking_clients(job_.attack, federation_.clients(),
                           static_cast<uint64_t>(job_.run.seed));
}

}  // namespace hanse
