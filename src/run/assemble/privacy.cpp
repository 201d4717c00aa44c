#include "privacy.hpp"

#include <sys/random.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/privacy.hpp"

namespace hanse {

namespace {

// The seed of the noise; the same on all ranks.
uint64_t noise_seed(const Job& job, Communicator& comm) {
  if (!job.privacy.seed.of_system) return seed_of(job, job.privacy.seed.number);
  int64_t seed = 0;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    if (getrandom(&seed, sizeof seed, 0) == sizeof seed) return;
    throw InvalidArgument("the system has no random numbers", "privacy.seed", "auto, or a number");
  });
  comm.bcast(std::span(&seed, 1), 0);
  return static_cast<uint64_t>(seed);
}

}  // namespace

std::unique_ptr<PrivateTraining> make_private_training(const Job& job, const Model& model,
                                                       const Federation& federation,
                                                       Communicator& comm) {
  if (!job.privacy.is_on()) return nullptr;
  const uint64_t seed = noise_seed(job, comm);
  std::unique_ptr<PrivateTraining> made;
  agree_on(comm, [&] {
    if (model.layout().n_trainable() < model.n_params()) {
      throw InvalidArgument("means and variances of batch norm are the clients', without noise",
                            "model.kind", "group norm has no such buffers");
    }
    const int64_t clients = federation.clients();
    const auto weight = [&rule = job.aggregator, &federation](int64_t client) {
      return private_weight(rule, federation.train(client).size());
    };
    const double mean =
        sum_of_private_weights(job.aggregator, federation) / static_cast<double>(clients);
    made = std::make_unique<PrivateTraining>(
        PrivacySetup{.options = job.privacy,
                     .terms = privacy_terms(job, clients, model.n_params()),
                     .rounds = job.run.rounds,
                     .seed = seed,
                     .weight = weight,
                     .mean_weight = mean},
        comm, model.n_params());
  });
  return made;
}

}  // namespace hanse
