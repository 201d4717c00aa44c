// Kinds as a job file knows them.
#pragma once

#include <string>
#include <vector>

#include "hanse/base/kind.hpp"

namespace hanse {

struct Job;

// One family of kinds: "samplers", chosen by "sampler.kind". A Kind is a KindRow<Job> with the
// family's further columns.
template <class Kind>
struct Family {
  std::string name;
  std::string key;
  std::string help;                  // of the key
  std::string& (*choice)(Job& job);  // the field of the key
  std::vector<Kind> rows;
  bool several = false;  // may be chosen at once, separated by commas
  std::vector<FormerChoice> former = {};  // kinds that were rows

  std::string section() const { return key.substr(0, key.find('.')); }
  // Throws InvalidArgument that names the key and the known kinds.
  const Kind& find(const std::string& kind) const { return find_kind(rows, key, kind); }
};

using KindFamily = Family<KindRow<Job>>;

// The field of a job that chooses: chosen_by<&Job::sampler, &SamplerOptions::kind>.
template <auto kSection, auto kField>
std::string& chosen_by(Job& job) {
  return (job.*kSection).*kField;
}

// The family in the form that job files know.
template <class Kind>
KindFamily listed(const Family<Kind>& family) {
  return {family.name,
          family.key,
          family.help,
          family.choice,
          {family.rows.begin(), family.rows.end()},
          family.several,
          family.former};
}

}  // namespace hanse
