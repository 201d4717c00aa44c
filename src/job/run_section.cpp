// The keys of [run].
#include "sections.hpp"

namespace hanse {

void bind_run(OptionTable& table, RunOptions& run) {
  table.add("run.name", run.name, "name of the run; default: the job file's name");
  table.add("run.seed", run.seed, at_least(0),
            "seed of every random stream that has none of its own: data.seed, model.seed, "
            "sampler.seed, client.seed");
  may_change(table.add("run.out", run.out, "run directory; default: runs/NAME"));
  may_change(table.add("run.rounds", run.rounds, at_least(1), "rounds in all"));
  table.add("run.threads", run.threads, between(1, 1024),
            "threads of each rank's kernels; part of what fixes the bits of a result");
  table.add("run.device", run.device,
            "where clients are trained; auto: on GPUs where build, host and job allow it and "
            "the model is large enough");
  may_change(table.add(
      "run.ranks-per-gpu", run.ranks_per_gpu, between(1, 64),
      "ranks of a host that may have the same GPU; comm.devices says how they exchange sums"));
  table.add(
      "run.device-cohort", run.device_cohort, between(0, 1024),
      "participants that a GPU trains side by side at most, neighbours in the draw, in cohorts "
      "of one size; 0: 32, fewer of large models; part of what fixes the bits of a result");
  may_change(
      table.add("run.device-graphs", run.device_graphs,
                "auto: a GPU gets the kernels of steps as CUDA graphs, where it can record them, "
                "of all models "
                "but torchscript's; the bits are the same; nothing on CPUs and without CUDA"));
  may_change(
      table.add("run.max-seconds", run.max_seconds, at_least(0),
                "seconds after which the run stops with a checkpoint and status 75; 0: no limit"));
  table.add("run.patience", run.patience, at_least(0),
            "evaluations without a better evaluate.best after which the run ends; 0: no limit");
  table.add("run.target", run.target,
            "metric>=value or metric<=value of an evaluation that ends the run; empty: none");
  table.add("run.round-seconds", run.round_seconds, at_least(0),
            "seconds after which a round starts no further participant; the others' updates are "
            "scaled so that none is favoured; the result then depends on times and ranks; 0: no "
            "limit");
  table.add("run.trace", run.trace,
            "write what the rules were given, for `hanse replay`: trace-sampler.json and "
            "trace-aggregator.json (protocol federated)");
  may_change(table.add("run.timeline", run.timeline,
                       "write what every rank did when, as timeline.json for ui.perfetto.dev"));
  table.add("run.repeats", run.repeats, at_least(1),
            "runs of the job, of seeds run.seed, run.seed + 1, ..., in run.out/repeats/1, 2, ...; "
            "summary.json has means and deviations; bandits are played at once, in one folder");
  may_change(table.add(
      "run.check-rules", run.check_rules,
      "prove that sampler, aggregator and server optimizer depend on their inputs and their saved "
      "state alone: others of the same kind start from that state in every round, and the run ends "
      "where a number differs (protocol federated)"));
  table.add("run.state-dict", run.state_dict,
            "write the trained model as state_dict.pt too, which Python's torch.load reads");
  may_change(
      table.add("run.merge-adapters", run.merge_adapters,
                "write model.h5, best.h5, averaged.h5 and state_dict.pt with the adapters of "
                "client.lora added to their matrices"));
  may_change(
      table.add("run.overwrite", run.overwrite, "replace an earlier run's results in run.out"));
}

}  // namespace hanse
