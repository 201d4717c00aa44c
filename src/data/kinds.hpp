// The kinds of data, one row each. A kind is read, streamed or mapped.
#pragma once

#include <memory>

#include "client_source.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

// Do the data say whose each sample is? csv does with data.client-column.
enum class OwnClients { kNone, kAlways };

struct DataKind {
  DataKindInfo info;
  OwnClients clients = OwnClients::kNone;
  // The samples stay where they stand, in a file of the host (hanse_file.hpp).
  bool mapped = false;
  // All samples in memory, for a partition; null for the others.
  Dataset (*read)(const DataOptions& data, int64_t clients, int64_t samples_per_client,
                  uint64_t seed) = nullptr;
  // Client by client; null for the others.
  std::unique_ptr<ClientSource> (*stream)(const DataOptions& data,
                                          const FederationOptions& federation,
                                          uint64_t seed) = nullptr;
};

// Throws InvalidArgument that names the known ones.
const DataKind& find_data_kind(const std::string& name);

}  // namespace hanse
