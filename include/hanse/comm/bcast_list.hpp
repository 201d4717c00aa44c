// Lists whose length the other ranks do not know.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Brings the root's `list`, a std::vector or std::string of any length, to all ranks. Collective.
// Cost: two broadcasts.
template <class List>
void bcast_list(Communicator& comm, List& list, int root = 0) {
  static_assert(std::is_trivially_copyable_v<typename List::value_type>);
  auto size = std::ssize(list);
  comm.bcast(std::as_writable_bytes(std::span(&size, 1)), root);
  list.resize(static_cast<std::size_t>(size));
  comm.bcast(std::as_writable_bytes(std::span(list)), root);
}

}  // namespace hanse
