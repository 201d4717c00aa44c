#include "hanse/protocol/protocol.hpp"

#include <array>
#include <sstream>
#include <variant>

#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

namespace {

// Brings rank 0's state to all ranks.
State bcast_state(const State& state, Communicator& comm) {
  std::string table;  // "TYPE NAME" a line
  for (const auto& [name, array] : state.arrays()) {
    table += std::to_string(array.index()) + " " + name + "\n";
  }
  bcast_list(comm, table);
  std::istringstream lines(table);
  const std::array<StateArray, 4> empty = {std::vector<int64_t>(), std::vector<double>(),
                                           std::vector<float>(), std::string()};
  State result;
  std::size_t type = 0;
  for (std::string name; lines >> type && std::getline(lines.ignore(), name);) {
    StateArray array = comm.rank() == 0 ? state.arrays().at(name) : empty.at(type);
    std::visit([&](auto& values) { bcast_list(comm, values); }, array);
    result.insert(name, std::move(array));
  }
  return result;
}

}  // namespace

void load_everywhere(Protocol& protocol, const State& state, Communicator& comm) {
  const State known = bcast_state(state, comm);
  agree_on(comm, [&] { protocol.load(known); });
}

}  // namespace hanse
