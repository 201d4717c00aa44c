#include "hanse/run/catalog.hpp"

#include <algorithm>

#include "hanse/data/kinds.hpp"
#include "kinds.hpp"

namespace hanse {

namespace {

std::vector<KindEntry> model_entries() {
  std::vector<KindEntry> entries;
  for (const auto& kind : model_kinds()) entries.push_back({kind.name, kind.summary});
  return entries;
}

std::vector<KindEntry> data_entries() {
  std::vector<KindEntry> entries;
  for (const auto& kind : data_kinds()) entries.push_back({kind.name, kind.summary});
  return entries;
}

}  // namespace

const std::vector<KindFamily>& catalog() {
  static const std::vector<KindFamily> families{
      {"samplers", "sampler.kind", sampler_entries()},
      {"aggregators", "aggregator.kind", aggregator_entries()},
      {"updates", "client.update", update_entries()},
      {"optimizers",
       "server.optimizer",
       {{"sgd", "theta moves by lr times the mixed update"},
        {"momentum", "with a velocity that lives across rounds (FedAvgM)"},
        {"adam", "FedAdam (Reddi et al. 2021)"},
        {"yogi", "FedYogi (Reddi et al. 2021)"},
        {"adagrad", "FedAdagrad (Reddi et al. 2021)"}}},
      {"models", "model.kind", model_entries()},
      {"data", "data.kind", data_entries()},
      {"partitions",
       "federation.partition",
       {{"auto", "by-column where the data have clients of their own, else iid"},
        {"iid", "equal sizes, at random"},
        {"dirichlet", "label shares of each class over clients from Dir(alpha)"},
        {"shards", "samples sorted by label, some shards a client"},
        {"sizes", "sizes drawn from a list with probabilities"},
        {"power-law", "sizes from a Pareto density"},
        {"by-label", "one class or group of classes a client"},
        {"by-column", "the data's own clients: client column, file, role"}}},
      {"online", "online.kind", expert_entries()},
      {"bandits", "bandit.kind", bandit_entries()},
      {"protocols",
       "run.protocol",
       {{"federated", "rounds: draw, train, mix, step"},
        {"online", "every node its own model on a stream of batches"},
        {"centralized", "a bound: one model on everybody's samples, as many a round"},
        {"local", "a bound: every client alone, nothing is mixed"},
        {"bandit", "clients pull arms and synchronize what they know"}}},
  };
  return families;
}

std::vector<std::string> known_names(const std::string& key) {
  const auto& families = catalog();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const auto& candidate) { return candidate.key == key; });
  std::vector<std::string> names;
  for (const auto& entry : family->entries) names.push_back(entry.name);
  return names;
}

}  // namespace hanse
