#include "mpi_messages.hpp"

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

MPI_Datatype mpi_type(ElementType type) {
  switch (type) {
    case ElementType::kInt64: return MPI_INT64_T;
    case ElementType::kDouble: return MPI_DOUBLE;
    case ElementType::kFloat: return MPI_FLOAT;
    case ElementType::kByte: return MPI_UINT8_T;  // MPI has no sum of MPI_BYTE
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return MPI_SUM;
    case ReduceOp::kMin: return MPI_MIN;
    case ReduceOp::kMax: return MPI_MAX;
  }
  return MPI_OP_NULL;
}

}  // namespace hanse
