// Many ranks on few cores, as if each had the machine that a job declares.
#pragma once

#include <memory>

#include "hanse/comm/cluster.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Every operation really takes place over `inner`, which must outlive the object, and takes the
// simulated time that it would take on the `cluster`: all ranks of a collective go on when the
// latest of them has come and the messages have arrived. Bytes and the meaning of every operation
// are those of `inner`; so are the hosts, of which those of the cluster are estimates alone: data
// is shared where it can be. Each collective costs a further all-reduce of two numbers here.
// REQUIRES: a SimulatedTime; cluster.ranks is inner.size().
std::unique_ptr<Communicator> make_simulated_communicator(Communicator& inner,
                                                          const Cluster& cluster);

}  // namespace hanse
