#include "families.hpp"
#include "hanse/protocol/server_optimizer_kinds.hpp"
#include "keyed_rows.hpp"

namespace hanse {

namespace {

void velocity_key(KindKeys& keys, ServerOptions& o, const std::string& help) {
  keys.add("server.beta", o.beta, from_below(0, 1), help);
}

void momentum_keys(KindKeys& keys, Job& job) {
  velocity_key(keys, job.server, "share of the velocity that stays");
}

void moment_key(KindKeys& keys, ServerOptions& o) {
  keys.add("server.tau", o.tau, above(0), "adaptivity, added to the root of the moment");
}

void adaptive_keys(KindKeys& keys, Job& job) {
  velocity_key(keys, job.server, "share of the velocity that stays");
  keys.add("server.beta2", job.server.beta2, from_below(0, 1),
           "share of the second moment that stays");
  moment_key(keys, job.server);
}

void adagrad_keys(KindKeys& keys, Job& job) {
  velocity_key(keys, job.server, "share of the velocity that stays (FedAdagrad's authors: 0)");
  moment_key(keys, job.server);
}

constexpr KindInJob kKinds[] = {{"momentum", momentum_keys},
                                {"adam", adaptive_keys},
                                {"yogi", adaptive_keys},
                                {"adagrad", adagrad_keys}};

}  // namespace

KindFamily optimizer_family() {
  return {.name = "optimizers",
          .key = "server.optimizer",
          .help = "how the server steps along the mixed update",
          .choice = [](Job& job) -> std::string& { return job.server.optimizer; },
          .rows = keyed_rows(server_optimizer_kinds(), kKinds)};
}

}  // namespace hanse
