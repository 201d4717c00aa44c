#include "privacy.hpp"

#include <algorithm>
#include <array>

#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/rules/sampling/basic.hpp"

namespace hanse {

namespace {

void refuse_buffers(const Model& model) {
  if (model.layout().n_trainable() == model.n_params()) return;
  throw InvalidArgument("means and variances of batch norm are the clients', without noise",
                        "model.kind", "group norm has no such buffers");
}

}  // namespace

CipherKey first_key(const Job& job, Communicator& comm) {
  if (!job.privacy.has_secret()) {
    return CipherKey::of_numbers(std::array{static_cast<uint64_t>(job.privacy.seed.number),
                                            static_cast<uint64_t>(job.run.seed)});
  }
  CipherKey key;
  agree_on(comm, [&] {
    if (comm.rank() == 0) key = CipherKey::of_system();
  });
  auto words = key.words();
  comm.bcast(std::span(words), 0);
  return CipherKey::of_words(words);
}

std::unique_ptr<PrivateTraining> make_private_training(const Job& job, const Model& model,
                                                       const Federation& federation,
                                                       Communicator& comm) {
  if (!job.privacy.of_clients()) return nullptr;
  const CipherKey key = first_key(job, comm);
  std::unique_ptr<PrivateTraining> made;
  agree_on(comm, [&] {
    refuse_buffers(model);
    const int64_t clients = federation.clients();
    const auto weight = [&rule = job.aggregator, &federation](int64_t client) {
      return private_weight(rule, federation.train(client).size());
    };
    const double mean =
        sum_of_private_weights(job.aggregator, federation) / static_cast<double>(clients);
    made = std::make_unique<PrivateTraining>(
        PrivacySetup{.options = job.privacy,
                     .terms = privacy_terms(job, clients, sent_params(job, model.layout())),
                     .rounds = job.run.rounds,
                     .key = key,
                     .weight = weight,
                     .mean_weight = mean,
                     .kept = kept_parts(job, model.layout())},
        comm, model.n_params());
  });
  return made;
}

std::unique_ptr<PrivateSamples> make_private_samples(const Job& job, const Model& model,
                                                     const Federation& federation,
                                                     Communicator& comm) {
  if (!job.privacy.of_samples()) return nullptr;
  const CipherKey key = first_key(job, comm);
  std::unique_ptr<PrivateSamples> made;
  agree_on(comm, [&] {
    refuse_buffers(model);
    made = std::make_unique<PrivateSamples>(
        SamplePrivacySetup{.options = job.privacy,
                           .terms = sample_terms(job, federation, model.layout().n_trainable()),
                           .rounds = job.run.rounds,
                           .key = key},
        comm);
  });
  return made;
}

std::function<std::unique_ptr<ClientSampler>()> private_sampler_maker(
    const Job& job, const Federation& federation, const std::unique_ptr<PrivateTraining>& privacy) {
  if (!has_secret_draws(job)) return sampler_maker(job, federation);
  const int64_t clients = federation.clients();
  const int64_t per_round = std::min(job.sampler.per_round, clients);
  const auto words = [&privacy] { return privacy->draw_words(); };
  if (job.sampler.kind == "uniform") {
    return [=] { return make_secret_uniform_sampler(clients, per_round, words); };
  }
  return [=] { return make_secret_poisson_sampler(clients, per_round, words); };
}

}  // namespace hanse
