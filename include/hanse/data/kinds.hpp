// The kinds of data, data.kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/kind.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

struct DataKindRow : KindRow<DataOptions> {
  Keys<FederationOptions> federation_keys;  // keys of [federation]
};

// In the order of data/README.md.
std::vector<DataKindRow> data_kinds();

// Is there a file or folder of this path, or one that a `*` in its name stands for (read_csv)?
bool data_exist(const std::string& path);

// The folder in which data.path lies; empty: the kind reads no file.
std::string folder_of_data(const DataOptions& data);

// Checks the options of the chosen kinds, and that the files are there. Throws InvalidArgument.
void check_data(const DataOptions& data, const FederationOptions& federation);

// The clients that train, where the options alone tell how many; empty: only the data do.
std::optional<int64_t> clients_before_reading(const DataOptions& data,
                                              const FederationOptions& federation);

// Reads the samples of `options`, of a kind without clients of its own. `clients` and
// `samples_per_client` set how many samples the made up kinds make: random their product,
// synthetic-regression so many for each client. Throws InvalidArgument that names file, line and
// field: missing, truncated or malformed files, counts that differ, labels outside the classes,
// values that are not finite. Cost: one pass over the files; the samples once in memory.
Dataset read_dataset(const DataOptions& options, int64_t clients, int64_t samples_per_client,
                     uint64_t seed);

}  // namespace hanse
