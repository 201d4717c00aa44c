// The keys of a job, a file a section: unit, range and help of each, bound to its field. Keys that
// only some kinds read stand with those kinds.
#pragma once

#include "hanse/base/options.hpp"

namespace hanse {

struct Job;

void bind_run(OptionTable& table, Job& job);
void bind_comm(OptionTable& table, Job& job);
void bind_evaluate(OptionTable& table, Job& job);
void bind_checkpoint(OptionTable& table, Job& job);
void bind_report(OptionTable& table, Job& job);
void bind_data(OptionTable& table, Job& job);
void bind_federation(OptionTable& table, Job& job);
void bind_model(OptionTable& table, Job& job);
void bind_client(OptionTable& table, Job& job);
void bind_sampler(OptionTable& table, Job& job);
void bind_server(OptionTable& table, Job& job);
void bind_bandit(OptionTable& table, Job& job);
void bind_online(OptionTable& table, Job& job);

}  // namespace hanse
