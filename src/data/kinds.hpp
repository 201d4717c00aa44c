// The kinds of data, one row each. A kind is read, streamed or mapped.
#pragma once

#include <memory>

#include "client_source.hpp"
#include "hanse/data/kinds.hpp"

namespace hanse {

struct DataTraits {
  bool reads_a_file = true;  // or folder: data.path
  bool own_clients = false;  // the data say whose a sample is; csv with data.client-column
  bool mapped = false;       // the samples stay in a file of the host (hanse_file.hpp)
};

struct DataKind : DataKindRow {
  DataTraits traits;
  // Reads all samples into memory, for a partition; null for the others.
  Dataset (*read)(const DataOptions& data, int64_t clients, int64_t samples_per_client,
                  uint64_t seed) = nullptr;
  // Reads client by client; null for the others.
  std::unique_ptr<ClientSource> (*stream)(const DataOptions& data,
                                          const FederationOptions& federation,
                                          uint64_t seed) = nullptr;
};

// Throws InvalidArgument that names the known kinds.
const DataKind& find_data_kind(const std::string& name);

}  // namespace hanse
