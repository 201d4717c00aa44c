// The parts of a round that its rule, its attackers and its clock ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/protocol/federated.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

class ColumnStepping;
class Server;

// What parts are made of; all must outlive them.
struct PartsOf {
  const FederatedTrainer::Parts& parts;
  const FederatedSettings& settings;
  const AggregatorNeeds& needs;           // among attackers
  Server* server;                         // null: not rank 0
  ColumnStepping* columns;                // null: the rule needs none
  RoundTrace* trace;                      // of rank 0; null: nobody asks for it
  std::span<const float> last_step = {};  // [P] on rank 0, where somebody looks at it: make_parts()
};

// All that the round needs, in the order in which they act. The same call on every rank.
std::vector<std::unique_ptr<RoundPart>> make_parts(PartsOf of);

// On every rank: the row of the rule's own, and the rows that attackers forge with.
std::unique_ptr<RoundPart> make_own_row(const PartsOf& of);
std::unique_ptr<RoundPart> make_forging(const PartsOf& of);
// On rank 0.
std::unique_ptr<RoundPart> make_fednova(const PartsOf& of);
std::unique_ptr<RoundPart> make_staleness(const PartsOf& of);
std::unique_ptr<RoundPart> make_fedasync(const PartsOf& of);
std::unique_ptr<RoundPart> make_participation_lines(const PartsOf& of);
std::unique_ptr<RoundPart> make_robust_measures(const PartsOf& of);
std::unique_ptr<RoundPart> make_trace(const PartsOf& of);

// Counts what make_forging()'s part sends in a round.
void send_forging(const FederatedFacts& facts, const char* kind, RoundFootprint& footprint);

}  // namespace hanse
