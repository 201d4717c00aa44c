// Makes the source, or opens the file, that the options name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client_source.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

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
