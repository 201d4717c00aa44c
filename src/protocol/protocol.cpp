#include "hanse/protocol/protocol.hpp"

#include <array>
#include <sstream>
#include <variant>

#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

// An array that the root has, on all ranks.
StateArray bcast_array(StateArray array, Communicator& comm) {
  std::visit(
      [&](auto& values) {
        auto size = std::ssize(values);
        comm.bcast(std::as_writable_bytes(std::span(&size, 1)), 0);
        values.resize(static_cast<std::size_t>(size));
        comm.bcast(std::as_writable_bytes(std::span(values)), 0);
      },
      array);
  return array;
}

State bcast_state(const State& state, Communicator& comm) {
  std::string table;  // "TYPE NAME" a line
  for (const auto& [name, array] : state.arrays()) {
    table += std::to_string(array.index()) + " " + name + "\n";
  }
  std::istringstream lines(bcast_text(comm, table, 0));
  const std::array<StateArray, 4> empty = {std::vector<int64_t>(), std::vector<double>(),
                                           std::vector<float>(), std::string()};
  State result;
  std::size_t type = 0;
  for (std::string name; lines >> type && std::getline(lines.ignore(), name);) {
    const bool is_root = comm.rank() == 0;
    result.insert(name, bcast_array(is_root ? state.arrays().at(name) : empty.at(type), comm));
  }
  return result;
}

}  // namespace

void load_everywhere(Protocol& protocol, const State& state, Communicator& comm) {
  const State known = bcast_state(state, comm);
  agree_on(comm, [&] { protocol.load(known); });
}

}  // namespace hanse
