// Replays of the families of rules, one for each key that names a rule.
#pragma once

#include "json_fields.hpp"

namespace hanse {

struct Job;

// The mechanism of noise that is replayed: no option of a job has it.
inline constexpr const char* kMechanismKey = "privacy.mechanism";

// One family's replay: the trace with its rule, whose options are set in `job`. `checks`: a twin of
// an aggregator or a sampler proves it pure (protocol/checked_rules.hpp), the sampler draws in
// every round beside the draw that the trace has, and each round of an online rule or of the
// virtual clock is that of a fresh one.
Json replay_aggregator(const Json& trace, const Job& job, bool checks);
Json replay_attack(const Json& trace, const Job& job, bool checks);
Json replay_rate(const Json& trace, const Job& job, bool checks);
Json replay_sampler(const Json& trace, const Job& job, bool checks);
Json replay_bandit(const Json& trace, const Job& job, bool checks);
Json replay_online(const Json& trace, const Job& job, bool checks);
Json replay_async(const Json& trace, const Job& job, bool checks);
Json replay_rounds(const Json& trace, const Job& job, bool checks);
Json replay_noise(const Json& trace, const Job& job, bool checks);
Json replay_optimizer(const Json& trace, const Job& job, bool checks);

}  // namespace hanse
