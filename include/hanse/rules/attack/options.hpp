// Options of byzantine participants.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/base/rule_file.hpp"

namespace hanse {

// attack.clients: a share of the clients below 1, rounded up; a number of them; or their ids, each
// with a comma behind it or between: "3, 7", or "3," of a single one.
struct AttackingClients {
  double number = 0;
  std::vector<int64_t> ids;  // ascending; in the place of the number

  // Throws InvalidArgument.
  static AttackingClients parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
  bool none() const { return number == 0 && ids.empty(); }
};

// How min-max and min-sum perturb the mean h of the honest updates: along -h / |h|, -sign(h) or -s.
enum class Perturbation { kUnit, kSign, kStd };
constexpr auto choices_of(Perturbation) { return std::array{"unit", "sign", "std"}; }

struct AttackOptions {
  std::string kind = "none";
  AttackingClients clients;
  bool idle = false;        // they are further clients without data
  int64_t first_round = 1;  // of the attack
  int64_t last_round = 0;   // 0: the run's last
  double strength = 0;      // tau, z, sigma or a factor; 0: the attack's own
  Perturbation direction = Perturbation::kUnit;
  int64_t source = 0;            // label-flip: the class that attack_success is measured on
  std::optional<double> target;  // a class; none: label-flip y -> C-1-y, backdoor 0
  int64_t patch = 3;             // backdoor: side in pixels
  double poison = 0.5;           // backdoor: share of a batch
  double feedback = 1;           // factor on what attackers say of themselves
  RuleFile own;                  // python, plugin

  bool is_on() const { return kind != "none" && !clients.none(); }
  bool attacks_in(int64_t round) const {
    return round >= first_round && (last_round == 0 || round <= last_round);
  }
};

// The clients that attack, ascending, fixed for the run. Of `clients` clients: those that the
// options name, or as many as they say, drawn by stream (seed, kAttack, 0); with options.idle the
// last ones. Throws InvalidArgument where there are not so many, or none would be left. Cost:
// O(clients).
std::vector<int64_t> attacking_clients(const AttackOptions& options, int64_t clients,
                                       uint64_t seed);

// Their share of the clients; 0: nobody attacks. Throws as attacking_clients().
double attacking_share(const AttackOptions& options, int64_t clients, uint64_t seed);

// With options.idle, how many clients without data there are beside the others; else 0.
int64_t idle_attackers(const AttackOptions& options);

}  // namespace hanse
