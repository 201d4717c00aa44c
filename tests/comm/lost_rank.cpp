// mpirun -n 3 test_mpi_lost_rank [--blocked]: ranks wait for what another library does over the
// same ranks, and rank 1 does not come. --blocked: inside a call that does not return.
#include <chrono>
#include <string_view>
#include <thread>

#include "hanse/comm/mpi_environment.hpp"

int main(int argc, char** argv) {
  const hanse::MpiEnvironment environment;
  const auto comm = hanse::make_mpi_communicator();
  const bool blocked = argc > 1 && std::string_view(argv[1]) == "--blocked";
  comm->set_timeout(1);
  comm->set_timeout(1, "`hanse resume run` goes on after round 6");
  comm->enter_phase("exchange", 7);
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::seconds(60)); };
  if (comm->rank() == 1) sleep();
  comm->wait_until([&] {
    if (blocked) sleep();
    return false;
  });
}
