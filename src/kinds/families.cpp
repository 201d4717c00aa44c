#include "families.hpp"

#include "hanse/client/kinds.hpp"
#include "hanse/client/schedule.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {

namespace {

template <class Options>
Keys<Job> in_job(const Keys<Options>& keys, Options Job::*section) {
  return Keys<Job>(
      [keys, section](OptionTable& table, Job& job) { keys.bind(table, job.*section); });
}

// A family whose kinds read one section alone; its field `kChoice` chooses.
template <auto kSection, auto kChoice, class Kind>
KindFamily family_of(const char* name, const char* key, const char* help,
                     const std::vector<Kind>& kinds) {
  KindFamily family{name, key, help, chosen_by<kSection, kChoice>, {}};
  for (const Kind& kind : kinds) {
    const auto check = [check = kind.check](const Job& job) {
      if (check) check(job.*kSection);
    };
    family.rows.push_back(
        {kind.name, kind.summary, in_job(kind.keys, kSection), check, kind.cpus_alone});
  }
  return family;
}

KindFamily data_family() {
  const std::vector<DataKindRow> kinds = data_kinds();
  auto family = family_of<&Job::data, &DataOptions::kind>("data", "data.kind",
                                                          "source of the samples", kinds);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Keys<Job>& keys = family.rows[i].keys;
    keys = {keys, in_job(kinds[i].federation_keys, &Job::federation)};
  }
  return family;
}

KindFamily optimizer_family() {
  auto family = family_of<&Job::server, &ServerOptions::optimizer>(
      "optimizers", "server.optimizer", "how the server steps along the mixed update",
      server_optimizer_kinds());
  const auto own = own_rule_keys(keys_of<Job>(
      "server", [](Job & job) -> auto& { return job.server.own; }));
  family.rows.push_back({"python", "a step of your own, in Python", own});
  family.rows.push_back({"plugin", "a step of your own, in a library", own});
  return family;
}

KindFamily client_optimizer_family() {
  auto family = family_of<&Job::client, &ClientOptions::kind>(
      "steps", "client.optimizer", "how a client steps along its gradients",
      client_optimizer_kinds());
  family.choice = [](Job& job) -> std::string& { return job.client.optimizer.kind; };
  return family;
}

KindFamily schedule_family() {
  auto family = family_of<&Job::client, &ClientOptions::kind>(
      "schedules", "client.schedule", "how a client's step size moves", schedule_kinds());
  family.choice = [](Job& job) -> std::string& { return job.client.schedule.kind; };
  return family;
}

KindFamily model_family() {
  auto family =
      family_of<&Job::model, &ModelOptions::kind>("models", "model.kind", "network", model_kinds());
  family.former = former_model_kinds();
  return family;
}

}  // namespace

std::vector<KindFamily> kind_families() {
  return {sampler_family(),
          aggregator_family(),
          attack_family(),
          privacy_family(),
          update_family(),
          client_optimizer_family(),
          schedule_family(),
          optimizer_family(),
          model_family(),
          data_family(),
          family_of<&Job::federation, &FederationOptions::partition>(
              "partitions", "federation.partition", "how samples are given to clients",
              partition_kinds()),
          clock_family(),
          async_family(),
          expert_family(),
          bandit_family(),
          statistics_family()};
}

}  // namespace hanse
