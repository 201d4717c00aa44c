// A build without CUDA and NCCL.
#include "device/device.hpp"
#include "device/kernels.hpp"
#include "device/step_graph.hpp"
#include "hanse/base/error.hpp"
#include "narrow/bfloat16_product.hpp"

namespace hanse {

std::vector<Gpu> gpus() { return {}; }
std::string use_gpu(int64_t, Precision) { throw NotCompiled("CUDA", "build with -DHANSE_CUDA=ON"); }
int64_t free_bytes() { return 0; }
std::string cuda_version() { return ""; }
std::string nccl_version() { return ""; }
void multiply_bfloat16_on_gpu(at::Tensor&, const at::Tensor&, const at::Tensor&) {
  throw NotCompiled("CUDA", "build with -DHANSE_CUDA=ON");
}
void run_on_gpu(const Work&, int64_t) { throw NotCompiled("CUDA", "build with -DHANSE_CUDA=ON"); }
std::unique_ptr<GraphRecorder> make_graph_recorder(bool) { return nullptr; }
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator&, const std::string&) {
  throw NotCompiled("NCCL", "build with -DHANSE_CUDA=ON");
}

}  // namespace hanse
