// What the two tables of `hanse privacy` have in common: their cases, and numbers that may be none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hanse/job/job.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/run/privacy_table.hpp"
#include "json_text.hpp"

namespace hanse {

// The least noise that meets epsilon, in the place of the job's.
inline void meet(Job& job, double epsilon) {
  job.privacy.noise = std::nullopt;
  job.privacy.epsilon = epsilon;
}

// A line of the table, with the job's noise or the least that meets one of the epsilons.
struct AskedCase {
  Job job;
  int64_t rounds, per_round;
};

inline std::vector<AskedCase> asked_cases(const Job& job, const PrivacyQuery& query) {
  const auto rounds = query.rounds.empty() ? std::vector{job.run.rounds} : query.rounds;
  const auto per_round =
      query.per_round.empty() ? std::vector{job.sampler.per_round} : query.per_round;
  std::vector<Job> jobs(std::max<std::size_t>(query.epsilon.size(), 1), job);
  for (std::size_t i = 0; i < query.epsilon.size(); ++i) meet(jobs[i], query.epsilon[i]);
  std::vector<AskedCase> cases;
  for (const Job& one : jobs) {
    for (const int64_t k : per_round) {
      for (const int64_t t : rounds) cases.push_back({one, t, k});
    }
  }
  return cases;
}

// The accountant whose epsilon counts.
inline AccountantKind accountant_of(const Job& job, const PrivacyCost& cost) {
  const AccountantKind asked = job.privacy.accountant;
  return asked == AccountantKind::kAuto ? cost.best() : asked;
}

inline nlohmann::ordered_json json_number(const std::optional<double>& value) {
  const bool is_number = value && std::isfinite(*value);
  return is_number ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

inline std::string number_cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "-";
}

}  // namespace hanse
