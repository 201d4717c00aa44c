#include "hanse/comm/mpi_environment.hpp"

#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <mpi.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mpirun.hpp"
#include "hanse/config.hpp"

namespace hanse {

namespace {

// The mpirun of another MPI starts ranks that do not know each other: each would train alone, and
// all write one folder. Its first rank alone says so, while the others leave it the time.
void require_own_mpirun() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1 || launched_ranks() < 2) return;
  MPI_Finalize();
  if (launched_rank() > 0) {
    sleep(1);
    std::_Exit(static_cast<int>(ExitStatus::kBadInput));
  }
  throw InvalidArgument(
      fmt::format("{} ranks were started, and none knows of the others: their mpirun is of another "
                  "MPI than the program, which has {}",
                  launched_ranks(), MpiEnvironment::library_version()),
      "mpirun", fmt::format("start them by {}", kMpiexec));
}

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

}  // namespace

MpiEnvironment::MpiEnvironment() {
  int provided = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) throw CommError("MPI_Init_thread failed", 0, code);
  require_own_mpirun();
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
