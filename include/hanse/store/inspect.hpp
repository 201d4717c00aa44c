// What an HDF5 file holds, in words.
#pragma once

#include <string>

namespace hanse {

// Lines of text on a checkpoint (round, whether its digest is right, the server's state, clients
// with state), a model file (tensors, parameters) or any other HDF5 file (its datasets). Arrays of
// up to four elements and short texts come with their values. A damaged checkpoint is named so, and
// not opened. Throws InvalidArgument when the file is missing or no HDF5 file.
std::string inspect_file(const std::string& path);

}  // namespace hanse
