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

namespace {

// What follows `label` in `text`, up to the end of the line or the next blank.
std::string word_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  if (at == std::string::npos) return "unknown";
  std::string word;
  std::istringstream(text.substr(at + label.size())) >> word;
  return word;
}

void keep_freed_blocks() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // bytes, the largest value it takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // bytes
#endif
}

}  // namespace

void set_model_threads(int64_t threads) {
  if (threads < 1) throw InvalidArgument("threads must be 1 or more", "run.threads");
  at::set_num_threads(static_cast<int>(threads));
  openblas_set_num_threads(static_cast<int>(threads));
  try {
    at::set_num_interop_threads(1);
  } catch (const c10::Error&) {
    // LibTorch takes the value once and before its first parallel work; models never use this pool.
  }
  keep_freed_blocks();
}

void choose_convolutions() {
  if (!has_avx512()) at::globalContext().setUserEnabledMkldnn(false);
}

std::string kernel_family() {
  std::string family = std::string("openblas ") + openblas_get_corename() + ", torch " +
                       word_after(at::show_config(), "CPU capability usage: ");
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* isa = std::getenv(name)) family += std::string(", onednn ") + isa;
  }
  if (!has_avx512()) family += ", convolutions without onednn";
  return family;
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace hanse
