#include "hanse/model/threads.hpp"

#include <cstdlib>
#include <sstream>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <cblas.h>
#include <malloc.h>
#include <torch/version.h>

#include "hanse/base/error.hpp"
#include "hanse/base/processor.hpp"

namespace hanse {

void set_model_threads(int64_t threads) {
  if (threads < 1) throw InvalidArgument("threads must be 1 or more", "run.threads");
  at::set_num_threads(static_cast<int>(threads));
  openblas_set_num_threads(static_cast<int>(threads));
  try {
    at::set_num_interop_threads(1);
  } catch (const c10::Error&) {
    // LibTorch takes the value once and before its first parallel work; models never use this pool.
  }
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // bytes, the largest value it takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // bytes
#endif
}

void choose_convolutions() {
  if (!has_avx512()) at::globalContext().setUserEnabledMkldnn(false);
}

std::string kernel_family() {
  const std::string config = at::show_config(), label = "CPU capability usage: ";
  const std::size_t place = config.find(label);
  std::string capability = "unknown";
  if (place != std::string::npos) {
    std::istringstream(config.substr(place + label.size())) >> capability;
  }
  std::string family = std::string("openblas ") + openblas_get_corename() + ", torch " + capability;
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* isa = std::getenv(name)) family += std::string(", onednn ") + isa;
  }
  if (!has_avx512()) family += ", convolutions without onednn";
  return family;
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace hanse
