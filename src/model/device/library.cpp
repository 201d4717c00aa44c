// The door of hanse-torch.so.
#include <cstdlib>
#include <sstream>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include "device.hpp"
#include "download.hpp"
#include "hanse/base/processor.hpp"
#include "hanse/model/torch_library.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "networks/scripts/script_objective.hpp"
#include "networks/state_dict.hpp"

namespace hanse {

namespace {

// Convolutions by oneDNN where there is AVX-512, by LibTorch's own loops and OpenBLAS elsewhere:
// oneDNN 2.6, which LibTorch 1.13 calls, writes behind the end of a buffer in the backward pass of
// its AVX2 kernels.
void choose_convolutions() {
  if (!has_avx512()) at::globalContext().setUserEnabledMkldnn(false);
}

void set_threads(int64_t threads) {
  choose_convolutions();
  at::set_num_threads(static_cast<int>(threads));
  try {
    at::set_num_interop_threads(1);
  } catch (const c10::Error&) {
    // LibTorch takes the value once and before its first parallel work; models never use this pool.
  }
}

std::string kernels() {
  const std::string config = at::show_config(), label = "CPU capability usage: ";
  const std::size_t place = config.find(label);
  std::string capability = "unknown";
  if (place != std::string::npos) {
    std::istringstream(config.substr(place + label.size())) >> capability;
  }
  std::string text = "torch " + capability;
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* isa = std::getenv(name)) text += std::string(", onednn ") + isa;
  }
  if (!has_avx512()) text += ", convolutions without onednn";
  return text;
}

}  // namespace

extern "C" const TorchLibrary* hanse_torch_library() {
  static const TorchLibrary library{
      .models = torch_models(),
      .make_objective = make_objective,
      .state_dict = state_dict,
      .make_cohort = make_cohort,
      .make_device_model = make_device_model,
      .make_device_frozen_part = make_device_frozen_part,
      .make_cohort_gradients = make_cohort_gradients,
      .make_device_sum = make_device_sum,
      .make_device_updates = make_device_updates,
      .mix_rows_on = mix_rows_on,
      .make_device_server = make_device_server,
      .make_staged_communicator = make_staged_communicator,
      .make_nccl_communicator = make_nccl_communicator,
      .downloads = [] { return download_count().load(); },
      .set_threads = set_threads,
      .kernels = kernels,
      .version = [] { return std::string(TORCH_VERSION); },
      .gpu = {.all = gpus,
              .use = use_gpu,
              .free_bytes = free_bytes,
              .cuda_version = cuda_version,
              .nccl_version = nccl_version},
  };
  return &library;
}

}  // namespace hanse
