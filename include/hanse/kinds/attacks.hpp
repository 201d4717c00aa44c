// Makes byzantine participants by the names of a job.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/client/options.hpp"
#include "hanse/protocol/attackers.hpp"
#include "hanse/protocol/update_stage.hpp"
#include "hanse/rules/attack/attack.hpp"

namespace hanse {

struct Job;

// Does the attack choose what hurts the rule most?
bool attack_searches(const Job& job);
// Does it spoil what attackers train on?
bool attack_poisons(const Job& job);
// What it must know to forge updates, but for the last aggregate of an attack in a file.
ForgeNeeds forge_needs(const Job& job);

// The decisions of an attack that forges updates, and what it must know; null: the job's does not.
// With run.check-rules a rule of the user's own works beside a twin that proves it pure.
// For a rule of the user's own: throws InvalidArgument when its file does not fit.
struct Forgery {
  std::unique_ptr<Attack> rule = nullptr;
  ForgeNeeds needs = {};
};
Forgery make_forgery(const Job& job);

// Who attacks, and what they send; null: nobody does. `decides`: will it be asked to forge? A file
// of the user's own is read then alone. Throws InvalidArgument when the job's numbers do not go
// with so many clients.
std::unique_ptr<Attackers> make_attackers(const Job& job, int64_t clients, bool decides = true);

// What attackers do to what they train on.
PoisonOptions poison_of(const Job& job, int64_t clients);

// Model replacement: attackers multiply their updates; null: the job has another attack.
std::unique_ptr<UpdateStage> make_replacement(const Job& job, int64_t clients);

}  // namespace hanse
