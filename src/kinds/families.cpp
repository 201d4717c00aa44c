#include "families.hpp"

#include "hanse/data/kinds.hpp"
#include "hanse/kinds/families.hpp"

namespace hanse {

namespace {

template <class Options>
Keys<Job> in_job(const Keys<Options>& keys, Options Job::*section) {
  return Keys<Job>(
      [keys, section](OptionTable& table, Job& job) { keys.bind(table, job.*section); });
}

// Kinds that read one section, as a job's.
template <class Options>
std::vector<KindRow<Job>> in_job(const std::vector<KindRow<Options>>& rows, Options Job::*section) {
  std::vector<KindRow<Job>> all;
  for (const KindRow<Options>& row : rows) {
    all.push_back(
        {row.name, row.summary, in_job(row.keys, section), [row, section](const Job& job) {
           if (row.check) row.check(job.*section);
         }});
  }
  return all;
}

KindFamily optimizer_family() {
  return {"optimizers", "server.optimizer", "how the server steps along the mixed update",
          chosen_by<&Job::server, &ServerOptions::optimizer>,
          in_job(server_optimizer_kinds(), &Job::server)};
}

KindFamily model_family() {
  return {"models", "model.kind", "network", chosen_by<&Job::model, &ModelOptions::kind>,
          in_job(model_kinds(), &Job::model)};
}

KindFamily data_family() {
  const std::vector<DataKindRow> kinds = data_kinds();
  KindFamily family{
      "data", "data.kind", "source of the samples", chosen_by<&Job::data, &DataOptions::kind>,
      in_job(std::vector<KindRow<DataOptions>>(kinds.begin(), kinds.end()), &Job::data)};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Keys<Job>& keys = family.rows[i].keys;
    keys = {keys, in_job(kinds[i].federation_keys, &Job::federation)};
  }
  return family;
}

KindFamily partition_family() {
  return {"partitions", "federation.partition", "how samples are given to clients",
          chosen_by<&Job::federation, &FederationOptions::partition>,
          in_job(partition_kinds(), &Job::federation)};
}

}  // namespace

std::vector<KindFamily> kind_families() {
  return {sampler_family(),   aggregator_family(), update_family(),
          optimizer_family(), model_family(),      data_family(),
          partition_family(), expert_family(),     bandit_family()};
}

}  // namespace hanse
