#include "bind.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_run(OptionTable& table, Job& job) {
  RunOptions& run = job.run;
  table.add("run.name", run.name, "name of the run; default: the job file's name");
  table.add("run.seed", run.seed, at_least(0), "seed of every random stream");
  table.add("run.out", run.out, "run directory; default: runs/NAME").may_change_on_resume();
  table.add("run.rounds", run.rounds, at_least(1), "rounds in all").may_change_on_resume();
  table.add("run.threads", run.threads, between(1, 1024),
            "threads of each rank's kernels; part of what fixes the bits of a result");
  table.add_choice("run.device", run.device, {"auto", "cpu", "cuda"},
                   "where clients are trained; auto: on GPUs where build, host and job allow it");
  table
      .add("run.ranks-per-gpu", run.ranks_per_gpu, between(1, 64),
           "ranks of a host that may have the same GPU; above 1, where they do, sums go through "
           "the host's memory and not through NCCL")
      .may_change_on_resume();
  table.add("run.device-cohort", run.device_cohort, between(1, 1024),
            "participants that a GPU trains side by side, neighbours in the draw; part of what "
            "fixes the bits of a result");
  table
      .add("run.max-seconds", run.max_seconds, at_least(0),
           "seconds after which the run stops with a checkpoint and status 75; 0: no limit")
      .may_change_on_resume();
  table.add("run.round-seconds", run.round_seconds, at_least(0),
            "seconds after which a round starts no further participant; the others' updates are "
            "scaled so that none is favoured; the result then depends on times and ranks; 0: no "
            "limit");
  table.add("run.trace", run.trace,
            "write what the rules were given, for `hanse replay`: trace-sampler.json and "
            "trace-aggregator.json (protocol federated)");
  table.add("run.state-dict", run.state_dict,
            "write the trained model as state_dict.pt too, which Python's torch.load reads");
  table.add("run.overwrite", run.overwrite, "replace an earlier run's results in run.out")
      .may_change_on_resume();
}

void bind_comm(OptionTable& table, Job& job) {
  CommOptions& comm = job.comm;
  table
      .add_choice("comm.reduction", comm.reduction, {"exact", "fast"},
                  "exact: 64-bit integers, the same bits for any number of ranks; fast: float32, "
                  "half the bytes")
      .may_change_on_resume();
  table
      .add_choice("comm.dispatch", comm.dispatch, {"auto", "planned", "shared"},
                  "planned: longest first from measured cost; shared: free ranks take the next "
                  "client, on one host or from a server that trains none (auto, where it can)")
      .may_change_on_resume();
  table
      .add("comm.timeout-seconds", comm.timeout_seconds, at_least(0),
           "seconds that ranks wait for one that does not come before they name it and end; longer "
           "than any rank trains in a round; 0: forever")
      .may_change_on_resume();
}

void bind_evaluate(OptionTable& table, Job& job) {
  EvaluateOptions& evaluate = job.evaluate;
  table
      .add("evaluate.every", evaluate.every, at_least(0),
           "rounds between evaluations of all clients; 0: after the last round only")
      .may_change_on_resume();
  table
      .add_choice("evaluate.view", evaluate.view, {"auto", "global", "personalised"},
                  "global: the shared model; personalised: every client's own, or what a round of "
                  "training makes of the shared one; auto: own where clients have one")
      .may_change_on_resume();
  table
      .add("evaluate.regret", evaluate.regret,
           "measure the sampler's variance and regret, for studies: all clients train in every "
           "round")
      .may_change_on_resume();
}

void bind_checkpoint(OptionTable& table, Job& job) {
  CheckpointOptions& checkpoint = job.checkpoint;
  table
      .add("checkpoint.every", checkpoint.every, at_least(0),
           "rounds between checkpoints; 0: after the last round and when stopped")
      .may_change_on_resume();
  table.add("checkpoint.keep", checkpoint.keep, at_least(0), "newest kept; 0: all")
      .may_change_on_resume();
  table
      .add_choice("checkpoint.on-error", checkpoint.on_error, {"continue", "stop"},
                  "when a checkpoint cannot be written")
      .may_change_on_resume();
}

void bind_report(OptionTable& table, Job& job) {
  ReportOptions& report = job.report;
  table
      .add("report.tensorboard", report.tensorboard,
           "also write rounds and evaluations as TensorBoard's event files, in tensorboard/")
      .may_change_on_resume();
}

}  // namespace hanse
