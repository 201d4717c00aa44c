// `hanse audit`: does a job keep what it claims of its privacy? An experiment.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/base/options.hpp"

namespace hanse {

struct AuditQuery {
  int64_t runs = 1000;       // with the canary, and as many without
  double confidence = 0.95;  // of the epsilon that is shown
  std::string curve;         // the file of the trade-off curve; empty: none
  bool json = false;
};

// Names "runs", "confidence" and "curve"; `query` must outlive the table.
void bind_audit(OptionTable& table, AuditQuery& query);

// Trains the job again and again, with a canary and without it: a client whose update is the
// longest that the clip allows, in the direction of one parameter, against one that sends zeros,
// under replace the same with the other sign. A run's score is how far its model went in this
// direction. What it prints: the claimed epsilon, and the epsilon that the scores show
// (audited_epsilon()). With privacy.seed = system noise and draws are new in each run. With another
// seed the noise is new and the draws are the job's, as for somebody who knows them; the canary is
// then the client that is drawn most often. Nothing but `curve` is written.
// Cost: 2 N runs of the job, with reading its data.
// Throws InvalidArgument: what hanse run would refuse of the options, and jobs without privacy.
std::string privacy_audit(const std::string& job_file, const Overrides& overrides,
                          const AuditQuery& query);

}  // namespace hanse
