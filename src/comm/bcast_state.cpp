#include "hanse/comm/bcast_state.hpp"

#include <string>
#include <utility>

#include "hanse/comm/bcast_list.hpp"

namespace hanse {

namespace {

template <class Array>
void bcast_array(Communicator& comm, const std::string& name, StateArray array, State& state) {
  Array values = comm.rank() == 0 ? std::get<Array>(std::move(array)) : Array();
  bcast_list(comm, values);
  state.insert(name, std::move(values));
}

}  // namespace

void bcast_state(Communicator& comm, State& state) {
  auto count = static_cast<int64_t>(state.arrays().size());
  comm.bcast(std::span(&count, 1), 0);
  if (comm.size() == 1) return;
  State all;
  auto next = state.arrays().begin();
  for (; count > 0; --count) {
    std::string name = comm.rank() == 0 ? next->first : std::string();
    const StateArray array = comm.rank() == 0 ? (next++)->second : StateArray();
    bcast_list(comm, name);
    auto type = static_cast<int64_t>(array.index());
    comm.bcast(std::span(&type, 1), 0);
    if (type == 0) bcast_array<std::vector<int64_t>>(comm, name, array, all);
    if (type == 1) bcast_array<std::vector<double>>(comm, name, array, all);
    if (type == 2) bcast_array<std::vector<float>>(comm, name, array, all);
    if (type == 3) bcast_array<std::string>(comm, name, array, all);
  }
  state = std::move(all);
}

}  // namespace hanse
