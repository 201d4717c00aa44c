// The archive that a TorchScript file is, looked at before LibTorch reads it.
#pragma once

#include <string>

namespace hanse {

// Throws InvalidArgument: no zip file, or a directory that promises more than the file can hold or
// more than there is memory. Cost: the directory is read.
void check_archive(const std::string& path);

}  // namespace hanse
