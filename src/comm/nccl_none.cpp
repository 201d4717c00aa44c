// A build without NCCL.
#include "hanse/base/error.hpp"
#include "hanse/comm/device_communicator.hpp"

namespace hanse {

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator&, const std::string&) {
  throw NotCompiled("NCCL", "build with -DHANSE_CUDA=ON");
}

std::string nccl_version() { return ""; }

}  // namespace hanse
