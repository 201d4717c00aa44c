// Many ranks on few cores, as if each had the machine that a job declares.
#pragma once

#include <memory>

#include "hanse/comm/cluster.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Every operation takes place over `inner`, which must outlive the object, and takes the simulated
// time that it would take on the `cluster`: all ranks of a collective go on when the latest of them
// has come and the messages have arrived. Bytes, results and hosts are those of `inner`, so that
// ranks share data where they can; the cluster's hosts serve estimates alone. Each collective costs
// a further all-reduce of two numbers. REQUIRES: a SimulatedTime; cluster.ranks is inner.size().
std::unique_ptr<Communicator> make_simulated_communicator(Communicator& inner,
                                                          const Cluster& cluster);

}  // namespace hanse
