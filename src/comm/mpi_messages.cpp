#include "mpi_messages.hpp"

#include <string>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

void check_mpi(int code, const char* operation, MPI_Comm comm) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  throw CommError(fmt::format("{} failed: {}", operation, text), rank, code);
}

}  // namespace hanse
