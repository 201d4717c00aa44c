#include "bind.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_server(OptionTable& table, Job& job) {
  ServerOptions& server = job.server;
  table.add("server.lr", server.lr, above(0), "step size of the server in the first round");
  table.add("server.lr-decay", server.lr_decay, above(0), "factor on server.lr ...");
  table.add("server.lr-decay-every", server.lr_decay_every, at_least(1),
            "... every so many rounds");
  table
      .add_choice("server.role", server.role, {"auto", "dedicated", "shared"},
                  "does rank 0 train clients too? auto: when it runs alone or on one host")
      .may_change_on_resume();
}

}  // namespace hanse
