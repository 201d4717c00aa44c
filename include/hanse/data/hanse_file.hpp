// Hanse's own data file: samples in client order, ready to be mapped. data/clients.md has its
// grammar.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/data/dataset.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

struct HanseFileSizes {
  int64_t clients = 0;   // those with training samples
  int64_t held_out = 0;  // those with test samples alone
  int64_t samples = 0;
  int64_t bytes = 0;
};

// Writes the clients and samples of the options as one file in place of `path`, client after
// client: Federation::load() gives the same digest for the file as for the options.
// federation.held_out is left to the runs that read the file. An exception leaves a broken file:
// write under another name, then rename.
// Throws InvalidArgument (input) and IoError (output, no room).
// Cost: memory for one client of a streamed kind (tff, leaf, text), for all samples of the others
// (see ScratchMemory); the output is written through a map of the file.
HanseFileSizes write_hanse_file(const std::string& path, const DataOptions& data,
                                const FederationOptions& federation, uint64_t seed);

// Does the open file have the attributes of such a file? REQUIRES: inside an hdf5::Section.
bool is_hanse_file(const hdf5::File& file);

// Clients, samples, their shape, classes and names, in lines. `verify` reads every sample and adds
// a line that says that the content matches the digest. Throws InvalidArgument: a damaged file.
std::string hanse_file_text(const std::string& path, bool verify);

}  // namespace hanse
