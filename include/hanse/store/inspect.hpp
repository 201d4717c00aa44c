// The contents of an HDF5 file, in words.
#pragma once

#include <string>

namespace hanse {

// Lines of text on a checkpoint (round, whether its digest is right, the server's state, clients
// with state), a model file (tensors, parameters), the data of hanse convert (clients, samples,
// classes, names) or any other HDF5 file (its datasets). Arrays of up to four elements and short
// texts come with their values. A damaged checkpoint is named so, and not opened. `verify` checks
// all digested bytes.
// Throws InvalidArgument: the file is missing or no HDF5 file; with `verify` also a content that
// does not match its digest, or a file that has none.
std::string inspect_file(const std::string& path, bool verify = false);

}  // namespace hanse
