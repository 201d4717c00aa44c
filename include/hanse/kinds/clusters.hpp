// Fixed clusters of clients: who has which copy of client.clustered in every round.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/data/federation.hpp"

namespace hanse {

struct Job;

// Refuses what needs no data. Throws InvalidArgument.
void check_clusters(const Job& job);

// Throws InvalidArgument where there are more copies than clients.
void require_clients_for_copies(const Job& job, int64_t clients);

// The copies [clients], by client.cluster-by:
//   file    those of federation.clusters-path, where clients stand by their numbers or their names;
//   labels  k-means (10 starts of k-means++) of the shares of the classes among each client's
//           training samples; the cluster of the first client is copy 0, and so on.
// Empty: each client takes the copy of its least loss. The same on every rank. Throws
// InvalidArgument that names the file and the line, or says what the labels lack. Cost of `labels`:
// reads all training labels.
std::vector<int64_t> fixed_copies(const Job& job, const Federation& federation);

}  // namespace hanse
