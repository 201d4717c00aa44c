// The one table of names: what a job file can choose, and how each is made.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/client/stream_fit.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/rules/experts/experts.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "hanse/run/job.hpp"

namespace hanse {

struct KindEntry {
  std::string name;
  std::string summary;
};

// One family of names: "samplers", chosen by "sampler.kind".
struct KindFamily {
  std::string name;
  std::string key;
  std::vector<KindEntry> entries;
};

// All families, in the order of `hanse list`.
const std::vector<KindFamily>& catalog();

// Names of the family that `key` chooses from. REQUIRES: key is one of catalog()'s.
std::vector<std::string> known_names(const std::string& key);

// Makers by the job's names. REQUIRES: a job whose names were checked by its table. They throw
// InvalidArgument when options and federation do not fit together.
std::unique_ptr<ClientSampler> make_sampler(const Job& job, const Federation& federation);
// The same without data. `initial` [M]: shares of weighted and lipschitz, first probabilities of
// the osmd family; empty: uniform, where the kind has such a start.
std::unique_ptr<ClientSampler> make_sampler(const SamplerOptions& options, int64_t clients,
                                            std::span<const double> initial);
// `participation` is the share of clients in a round, in (0, 1].
std::unique_ptr<Aggregator> make_aggregator(const Job& job, int64_t clients, double participation);
// A bandit's rule for N clients, horizon T and arms of `inputs` numbers each.
BanditRule make_bandit_rule(const BanditOptions& options, int64_t clients, int64_t horizon,
                            int64_t inputs);
std::unique_ptr<LocalUpdate> make_update(const Job& job, const Federation& federation,
                                         Model& model);
// The server's step: that of server.optimizer, or what client.update asks for.
std::unique_ptr<ServerOptimizer> make_optimizer(const Job& job, int64_t n_params);
// `horizon` is T of the rate that online.eta = auto chooses.
std::unique_ptr<ExpertRule> make_experts(const Job& job, int64_t nodes, int64_t horizon);
std::unique_ptr<StreamFit> make_stream_fit(const Job& job, const Federation& federation,
                                           Model& model);

}  // namespace hanse
