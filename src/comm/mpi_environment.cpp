#include "hanse/comm/mpi_environment.hpp"

#include <cstdlib>
#include <ctime>
#include <string_view>

#include <fmt/format.h>
#include <mpi.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// MPICH's launcher ends at once when it hears of an abort, and what it has not read yet is lost.
void wait_until_launcher_has_read(int output) {
  constexpr timespec kPause{0, 1'000'000};
  constexpr int kMostPauses = 1000;  // it may be stopped
  struct stat what = {};
  if (fstat(output, &what) != 0 || !S_ISFIFO(what.st_mode)) return;
  for (int i = 0; i < kMostPauses; ++i) {
    int unread = 0;
    if (ioctl(output, FIONREAD, &unread) != 0 || unread == 0) return;
    nanosleep(&kPause, nullptr);
  }
}

// Open MPI 4.1 maps 216 MB of libraries and shared memory while two ranks of a host begin. Where it
// finds no room for some of them it goes on, and may end the process in a library of its own.
// REQUIRES: less than every run maps later, so that no run is refused that could train.
constexpr int64_t kInitBytes = int64_t{256} << 20;

// The first rank speaks, and its launcher ends the others. If the first alone has room, they speak.
void require_room() {
  try {
    require_threads(0,
                    {.bytes = kInitBytes,
                     .purpose = "which MPI takes",
                     .is_data = false,
                     .hint = "raise the limit"},
                    "");
  } catch (const InvalidArgument&) {
    if (launch().rank > 0) sleep(3);
    throw;
  }
}

}  // namespace

MpiEnvironment::MpiEnvironment() {
  require_room();
  int provided = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) throw CommError("MPI_Init_thread failed", 0, code);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; the default of 50 us would dominate the short sleeps
}

MpiEnvironment::~MpiEnvironment() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Finalize();
}

std::string MpiEnvironment::library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  constexpr std::string_view kOfMpich = "Version:\t";
  const auto at = version.find(kOfMpich);
  return at == std::string::npos ? version : version.erase(at, kOfMpich.size());
}

// Else each would train alone, and all would write one folder.
void require_all_ranks(int known, const Launch& launch) {
  const int ranks = launch.ranks > 0 ? launch.ranks : launch.rank + 1;
  if (known > 1 || ranks < 2) return;
  // Where the launcher tells no number, the first cannot know that there are others.
  const int speaker = launch.ranks > 0 ? 0 : 1;
  if (launch.rank != speaker) {
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized) MPI_Finalize();
    sleep(1);
    std::_Exit(static_cast<int>(ExitStatus::kBadInput));
  }
  if (launch.by_slurm) {
    throw InvalidArgument(
        fmt::format("{} tasks were started, and none knows of the others: srun has given them "
                    "nothing that {} understands",
                    ranks, MpiEnvironment::library_version()),
        "srun",
        "srun --mpi=pmix, for MPICH srun --mpi=pmi2, or mpirun; "
        "SLURM_STEP_NUM_TASKS=1 in the environment of tasks that train apart");
  }
  throw InvalidArgument(
      fmt::format("{} ranks were started, and none knows of the others: their mpirun is of another "
                  "MPI than the program, which has {}",
                  ranks, MpiEnvironment::library_version()),
      "mpirun",
      "start them by the mpirun of this MPI, as lib/mpirun beside the program does, or take theirs "
      "(HANSE_MPI)");
}

void abort_all_ranks(int status) {
  wait_until_launcher_has_read(STDERR_FILENO);
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace hanse
