// A build without CUDA and NCCL.
#include "hanse/base/error.hpp"
#include "hanse/model/device.hpp"
#include "hanse/model/device_communicator.hpp"

namespace hanse {

int64_t gpu_count() { return 0; }
std::string gpu_identity(int64_t) { return ""; }
int64_t gpu_memory_bytes(int64_t) { return 0; }
std::string gpu_name(int64_t) { return ""; }
std::string use_gpu(int64_t) { throw NotCompiled("CUDA", "build with -DHANSE_CUDA=ON"); }
std::string cuda_version() { return ""; }
std::string nccl_version() { return ""; }
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator&, const std::string&) {
  throw NotCompiled("NCCL", "build with -DHANSE_CUDA=ON");
}

}  // namespace hanse
