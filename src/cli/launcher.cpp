// The program's first step. OpenBLAS chooses its kernels while it is loaded, by the environment and
// by a processor table that is older than many processors; so the choice is made here, before the
// library that holds everything else (HANSE_PROGRAM.so) is loaded. Two families cover x86-64, so
// that hosts of different age agree more often: SkylakeX with AVX-512, Haswell without.
// HANSE_KERNELS in the environment overrides it. MPI is chosen here, too (mpi_choice.hpp).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/processor.hpp"
#include "hanse/cli/start.hpp"
#include "mpi_choice.hpp"

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

namespace fs = std::filesystem;

// Where the program lies and what belongs to it.
struct Installation {
  std::string folder;  // of its libraries
  std::string share;   // of its jobs and data; empty: a build
  std::string prefix;  // of a wheel's environment; else empty
  std::string text;
};

Installation installation() {
  std::error_code error;
  const fs::path place = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (fs::exists(place / "lib" / HANSE_PROGRAM ".so", error)) {
    return {place / "lib", "", "", "a build, in " + place.string()};
  }
  const fs::path above = place.parent_path();
  const fs::path folder = above / "lib" / "hanse", share = above / "share" / "hanse";
  if (!fs::exists(above / "__init__.py", error)) {
    return {folder, share, "", "an installation, in " + above.string()};
  }
  // PREFIX/lib/pythonX.Y/site-packages/hanse_program/bin
  const fs::path prefix = above.parent_path().parent_path().parent_path().parent_path();
  return {folder, share, prefix, "a wheel, in " + above.string()};
}

// The first rank speaks; the others leave it the time.
int refuse(const std::string& error) {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    const char* const rank = std::getenv(variable);
    if (rank == nullptr || std::string(rank) == "0") continue;
    sleep(1);
    return 2;
  }
  std::fprintf(stderr, "hanse: error: %s\n", error.c_str());
  return 2;
}

int fail_to_load() {
  std::fprintf(stderr, "hanse: error: cannot load the program: %s%s\n", dlerror(),
               has_address_limit() ? "; hint: raise ulimit -v (h_vmem of SGE)" : "");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  hanse::Start start{.seconds = hanse::monotonic_seconds()};
  hold_stop_warnings();
  choose_kernels();
  const Installation here = installation();
  const hanse::MpiChoice mpi = hanse::choose_mpi(here.folder, here.prefix);
  if (!mpi.error.empty()) return refuse(mpi.error);
  constexpr int kForAll = RTLD_LAZY | RTLD_GLOBAL;
  if (!mpi.library.empty() && dlopen(mpi.library.c_str(), kForAll) == nullptr) {
    return fail_to_load();
  }
  const std::string library = mpi.library + " (" + mpi.reason + ")";
  start.program = here.text.c_str();
  start.share = here.share.c_str();
  start.mpi_library = library.c_str();
  void* program = dlopen(mpi.part.c_str(), kForAll);
  using Main = int (*)(int, char**, const hanse::Start&);
  const auto entry = program ? reinterpret_cast<Main>(dlsym(program, "hanse_main")) : nullptr;
  return entry ? entry(argc, argv, start) : fail_to_load();
}
