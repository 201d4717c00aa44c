#include "bind.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_data(OptionTable& table, Job& job) {
  DataOptions& data = job.data;
  table.add("data.labels", data.labels, at_least(0),
            "classes to keep, renumbered 0, 1, ... in this order; empty: all");
  table.add("data.test-fraction", data.test_fraction, from_below(0, 1),
            "share of each client's samples kept for testing, stratified by label (texts: the end "
            "of each); 0: evaluate on the training samples; not used where the data have test "
            "samples");
  table.add_choice("data.standardize", data.standardize, {"none", "client", "all"},
                   "centre and scale the features of a csv by the training samples of each "
                   "client, or of all clients");
}

void bind_federation(OptionTable& table, Job& job) {
  FederationOptions& federation = job.federation;
  table.add("federation.clients", federation.clients, at_least(1),
            "number of clients; by-column: taken from the data");
  table.add("federation.held-out", federation.held_out, at_least(0),
            "clients that are evaluated and never trained on: a share below 1, or a number");
}

}  // namespace hanse
