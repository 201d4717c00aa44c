#include "hanse/run/catalog.hpp"

#include <algorithm>

#include "hanse/rules/sampling/basic.hpp"

namespace hanse {

namespace {

std::vector<double> sample_shares(const Federation& federation) {
  std::vector<double> lambda(static_cast<std::size_t>(federation.clients()));
  for (std::size_t c = 0; c < lambda.size(); ++c) {
    lambda[c] = static_cast<double>(federation.train(static_cast<int64_t>(c)).size()) /
                static_cast<double>(federation.train_samples());
  }
  return lambda;
}

struct SamplerKind {
  KindEntry entry;
  std::unique_ptr<ClientSampler> (*make)(const SamplerOptions&, const Federation&);
};

const std::vector<SamplerKind> kSamplers{
    {{"uniform", "a uniform subset, without replacement"},
     [](const SamplerOptions& options, const Federation& federation) {
       return make_uniform_sampler(federation.clients(), options.per_round);
     }},
    {{"weighted", "by the clients' samples, with replacement"},
     [](const SamplerOptions& options, const Federation& federation) {
       return make_weighted_sampler(sample_shares(federation), options.per_round);
     }},
    {{"full", "every client in every round"},
     [](const SamplerOptions&, const Federation& federation) {
       return make_full_sampler(federation.clients());
     }},
};

struct AggregatorKind {
  KindEntry entry;
  std::unique_ptr<Aggregator> (*make)(const AggregatorOptions&, int64_t clients);
};

const std::vector<AggregatorKind> kAggregators{
    {{"fedavg", "by samples or all the same (McMahan et al. 2017)"},
     [](const AggregatorOptions& options, int64_t clients) {
       return make_fedavg(options.fedavg, clients);
     }},
};

struct UpdateKind {
  KindEntry entry;
  std::unique_ptr<LocalUpdate> (*make)(const ClientOptions&, const Federation&, Model&);
};

const std::vector<UpdateKind> kUpdates{
    {{"sgd", "mini-batch SGD"}, make_sgd},
};

template <class Kinds>
std::vector<KindEntry> entries_of(const Kinds& kinds) {
  std::vector<KindEntry> entries;
  for (const auto& kind : kinds) entries.push_back(kind.entry);
  return entries;
}

std::vector<KindEntry> model_entries() {
  std::vector<KindEntry> entries;
  for (const auto& kind : model_kinds()) entries.push_back({kind.name, kind.summary});
  return entries;
}

// The maker of that name. REQUIRES: the name is in the table.
template <class Kinds>
const auto& find_kind(const Kinds& kinds, const std::string& name) {
  return *std::find_if(kinds.begin(), kinds.end(),
                       [&](const auto& kind) { return kind.entry.name == name; });
}

}  // namespace

const std::vector<KindFamily>& catalog() {
  static const std::vector<KindFamily> families{
      {"samplers", "sampler.kind", entries_of(kSamplers)},
      {"aggregators", "aggregator.kind", entries_of(kAggregators)},
      {"updates", "client.update", entries_of(kUpdates)},
      {"optimizers",
       "server.optimizer",
       {{"sgd", "theta moves by lr times the mixed update"},
        {"momentum", "with a velocity that lives across rounds (FedAvgM)"}}},
      {"models", "model.kind", model_entries()},
      {"data",
       "data.kind",
       {{"idx", "MNIST's format, plain or gzip"},
        {"csv", "numeric columns, a label column, a client column"},
        {"random", "random images in the shape asked for, for benchmarks"}}},
      {"partitions",
       "federation.partition",
       {{"iid", "equal sizes, at random"},
        {"dirichlet", "label shares of each class over clients from Dir(alpha)"},
        {"shards", "samples sorted by label, some shards a client"},
        {"sizes", "sizes drawn from a list with probabilities"},
        {"power-law", "sizes from a Pareto density"},
        {"by-label", "one class or group of classes a client"},
        {"by-column", "by the client column of the data"}}},
      {"protocols", "run.protocol", {{"federated", "rounds: draw, train, mix, step"}}},
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

std::unique_ptr<ClientSampler> make_sampler(const Job& job, const Federation& federation) {
  return find_kind(kSamplers, job.sampler.kind).make(job.sampler, federation);
}

std::unique_ptr<Aggregator> make_aggregator(const AggregatorOptions& options, int64_t clients) {
  return find_kind(kAggregators, options.kind).make(options, clients);
}

std::unique_ptr<LocalUpdate> make_update(const Job& job, const Federation& federation,
                                         Model& model) {
  return find_kind(kUpdates, job.client.kind).make(job.client, federation, model);
}

}  // namespace hanse
