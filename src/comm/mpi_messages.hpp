// Tags and types of messages over MPI, and its codes as exceptions. Private to comm/.
#pragma once

#include <mpi.h>

#include "hanse/comm/element.hpp"

namespace hanse {

// Messages of one kind never match a receive of another.
enum MessageTag : int { kCollectiveTag, kDownTag, kUpTag, kPointTag };

// Throws CommError with MPI's text, and this process's rank in `comm`, unless `code` is success.
void check_mpi(int code, const char* operation, MPI_Comm comm);

MPI_Datatype mpi_type(ElementType type);
MPI_Op mpi_op(ReduceOp op);

}  // namespace hanse
