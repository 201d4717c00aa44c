// The names of server.optimizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace hanse {

struct ServerOptions;
class ServerOptimizer;

struct ServerOptimizerKind {
  std::string name;
  std::string summary;  // one line
  std::unique_ptr<ServerOptimizer> (*make)(const ServerOptions& options, int64_t n_params);
};

// Those that make_server_optimizer() knows; it throws InvalidArgument for another.
const std::vector<ServerOptimizerKind>& server_optimizer_kinds();

}  // namespace hanse
