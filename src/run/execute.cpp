#include "hanse/run/execute.hpp"

#include "execution.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"

namespace hanse {

ExitStatus run_job(const std::string& job_file, const Overrides& overrides, Communicator& comm,
                   double start_s) {
  KeyedJob job(catalog());
  agree_on(comm, [&] {
    load_job(job_file, overrides, job);
    check_job(job);
    if (comm.rank() == 0) check_output(job.run.out, job.run.overwrite);
    job.run.overwrite = false;  // permission for this start, not for those with the written job.cfg
  });
  require_same(comm, "job files", job_text(job), "start every rank with the same arguments");
  comm.set_timeout(job.comm.timeout_seconds);
  return Execution(job, comm, start_s, std::nullopt).run();
}

}  // namespace hanse
