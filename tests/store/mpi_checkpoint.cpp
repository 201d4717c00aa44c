// mpirun -n N test_mpi_checkpoint: rows written by all ranks at once come back under another
// assignment of clients to ranks, and a rank that cannot write stops all of them alike. Prints what
// is wrong and returns 1.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "hanse/store/checkpoint.hpp"
#include "store/checkpoint_fixture.hpp"
#include "store/file_size_limit.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kMemory = int64_t{1} << 40;

void require(bool holds, const std::string& what) {
  if (!holds) throw IoError(what);
}

void write(const std::string& folder, int64_t round, int64_t clients, int64_t width,
           Communicator& comm) {
  ClientStateStore store(width, kMemory, folder);
  fill_clients(store, clients, comm.rank(), comm.size());
  const State server = comm.rank() == 0 ? example_state(round) : State();
  write_checkpoint(folder, round, server, &store, comm);
}

// Reads with client % readers, which is another assignment than the writers'.
void require_rows(const std::string& file, int64_t clients, int64_t width, int readers) {
  for (int reader = 0; reader < readers; ++reader) {
    ClientStateStore store(width, kMemory, "/tmp");
    read_checkpoint_clients(
        file, [&](int64_t client) { return client % readers == reader; }, store);
    const std::string wrong = clients_wrong(store, clients, reader, readers);
    require(wrong.empty(), "width " + std::to_string(width) + ", " + wrong + " is wrong");
  }
}

// The file has the bytes that one rank alone would have written.
void require_same_file(const std::string& file, int64_t clients, int64_t width) {
  const ScratchFolder alone;
  ClientStateStore store(width, kMemory, alone.path());
  fill_clients(store, clients, 0, 1);
  write_checkpoint(alone.path(), 3, example_state(3), &store, *make_single_communicator());
  require(file_digest_hex(file, 0) == file_digest_hex(alone / "round-000003.h5", 0),
          "the file's bytes depend on the number of ranks");
}

void check_round_trip(const std::string& folder, Communicator& comm, int64_t clients,
                      int64_t width) {
  write(folder, 3, clients, width, comm);
  const std::string file = checkpoint_path(folder, 3);
  agree_on(comm, [&] {
    require(!checkpoint_damage(file), "the file is damaged");
    require_rows(file, clients, width, comm.size() + 1);
    const bool same = read_checkpoint_state(file).arrays() == example_state(3).arrays();
    require(same, "the server's state differs");
    if (comm.rank() == 0) require_same_file(file, clients, width);
  });
}

// No room for the rows, on one rank only: the space is reserved by rank 0, so rank 0's limit shows
// when the file is laid out, and another's only while rows are being written.
void check_full_disk(const std::string& folder, Communicator& comm, int limited) {
  const std::string before = file_digest_hex(checkpoint_path(folder, 3), 0);
  std::string message;
  {
    const FileSizeLimit full(comm.rank() == limited ? 600'000 : RLIM_INFINITY);
    try {
      write(folder, 4, 40, 20'000, comm);
    } catch (const IoError& error) {
      message = error.what();
    }
  }
  std::string first = message;
  bcast_list(comm, first);
  agree_on(comm, [&] {
    require(!message.empty(), "a full disk went unnoticed");
    require(message == first, "ranks disagree: " + message + " | " + first);
    require(message.find('\n') == std::string::npos, "more than one line: " + message);
    require(file_digest_hex(checkpoint_path(folder, 3), 0) == before, "the old file has changed");
    require(checkpoint_damage(checkpoint_path(folder, 4)).has_value(), "a half file was published");
  });
  if (comm.rank() == 0) std::printf("full on rank %d: %s\n", limited, message.c_str());
}

void check_all(Communicator& comm) {
  std::optional<ScratchFolder> mine;
  if (comm.rank() == 0) mine.emplace();
  std::string folder = mine ? mine->path() : "";
  bcast_list(comm, folder);
  for (const auto& [clients, width] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 4}, {1, 1}, {30, 0}, {31, 17}, {4000, 3}, {20, 100'003}, {5, 4'200'001}}) {
    check_round_trip(folder, comm, clients, width);
  }
  for (int rank = 0; rank < comm.size(); ++rank) check_full_disk(folder, comm, rank);
  check_round_trip(folder, comm, 31, 17);
  agree_on(comm, [&] {
    if (mine) require(mine->names().size() == 1, "temporary files were left");
  });
}

int run() {
  const MpiEnvironment environment;
  const auto comm = make_mpi_communicator();
  try {
    check_all(*comm);
    return 0;
  } catch (const std::exception& error) {
    if (comm->rank() == 0) std::fprintf(stderr, "test_mpi_checkpoint: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace hanse

int main() { return hanse::run(); }
