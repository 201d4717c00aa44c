// The kinds of data, one row each: a kind is read, streamed or mapped. Makes the source, or opens
// the file, that the options name.
#pragma once

#include <memory>

#include "client_source.hpp"
#include "hanse/data/kinds.hpp"

namespace hanse {

struct DataTraits {
  bool reads_a_file = true;  // or folder: data.path
  bool own_clients = false;  // the data say whose a sample is; csv with data.client-column
  bool has_star = false;     // data.path may name several files by a star
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

// Throws InvalidArgument when the options want for data with clients of their own what other data
// alone have: a partition, classes to keep, standardizing.
void check_own_clients(const DataOptions& data, const FederationOptions& federation);

// The source that the options name, its partition included. Throws InvalidArgument.
std::unique_ptr<ClientSource> make_client_source(const DataOptions& data,
                                                 const FederationOptions& federation,
                                                 uint64_t seed);

// Hanse's own data file.
struct HanseFile {
  ClientLayout layout;
  SamplePlaces places;
  uint64_t digest = 0;  // over layout and samples
};

// Reads the header, the names and the labels; `places` are offsets in the mapped file. A file of up
// to 16 MiB, and one without a digest, is read whole and compared with its digest. Throws
// InvalidArgument: not such a file, damaged, arrays that do not fit each other, labels outside the
// classes, numbers that are not finite.
HanseFile open_hanse_file(const std::string& path);

}  // namespace hanse
