// The two bounds that federated training lies between, as federated jobs of a special kind.
#pragma once

#include "hanse/data/federation.hpp"

namespace hanse {

struct Job;

enum class Bound { kCentralized, kLocal };

// The federated job that run.protocol = centralized or local amounts to. Both train by plain SGD
// with the job's epochs or steps, batch, learning rate, momentum, weight decay and clipping; of the
// sampler they read per-round and whether the kind is full; rule and server optimizer are FedAvg's.
//   centralized: one participant, which trains on the training samples of all clients. A round
//     processes as many samples as a federated round does on average: per-round / clients of the
//     sum over clients of samples_processed(), in whole mini-batches, at least one.
//   local: every client keeps its own model, from the common initial one; nothing is mixed. A round
//     trains per-round clients, drawn uniformly, each as in a federated round.
// Throws InvalidArgument when there are too many participants, or samples to pool (2^31).
Job bound_job(const Job& job, const Federation& federation, Bound which);
// The same, but for what depends on the clients' samples.
Job bound_options(const Job& job, Bound which);

}  // namespace hanse
