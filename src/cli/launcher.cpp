// The program's first step. OpenBLAS chooses its kernels while it is loaded, by the environment and
// by a processor table that is older than many processors; so the choice is made here, before the
// library that holds everything else (HANSE_PROGRAM) is loaded. Two families cover x86-64, so that
// hosts of different age agree more often: SkylakeX with AVX-512, Haswell without. HANSE_KERNELS in
// the environment overrides it.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/resource.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/processor.hpp"

namespace {

const char* best_kernels() {
  return hanse::has_avx512() ? "SkylakeX" : hanse::has_avx2() ? "Haswell" : nullptr;
}

void choose_kernels() {
  const char* wanted = std::getenv("HANSE_KERNELS");
  // The program refuses what the processor lacks (check_kernels), with the other ranks.
  if (!wanted || !hanse::runs_blas_kernels(wanted)) wanted = best_kernels();
  if (wanted) setenv("OPENBLAS_CORETYPE", wanted, 1);
  // run.threads starts threads, not one a core while the library is loaded.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
}

// Delays warnings of the end that come while the program and MPI start, until they can act on them
// (catch_stop_warnings).
void hold_stop_warnings() {
  sigset_t warnings;
  sigemptyset(&warnings);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU}) sigaddset(&warnings, signal);
  sigprocmask(SIG_BLOCK, &warnings, nullptr);
}

bool has_address_limit() {
  rlimit limit = {};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

int main(int argc, char** argv) {
  const double start_s = hanse::monotonic_seconds();
  hold_stop_warnings();
  choose_kernels();
  void* program = dlopen(HANSE_PROGRAM, RTLD_LAZY | RTLD_GLOBAL);
  using Main = int (*)(int, char**, double);
  const auto entry = program ? reinterpret_cast<Main>(dlsym(program, "hanse_main")) : nullptr;
  if (!entry) {
    std::fprintf(stderr, "hanse: error: cannot load the program: %s%s\n", dlerror(),
                 has_address_limit() ? "; hint: raise ulimit -v (h_vmem of SGE)" : "");
    return 1;
  }
  return entry(argc, argv, start_s);
}
