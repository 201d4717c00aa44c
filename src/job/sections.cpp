// The keys of a job, section by section: unit, range and help of each, bound to its field. Keys
// that only some kinds read stand with those kinds.
#include <fmt/format.h>

#include "hanse/job/keyed_job.hpp"
#include "hanse/model/loss_rule.hpp"
#include "other_protocols.hpp"
#include "part_keys.hpp"

namespace hanse {

namespace {

// A resumed run may change it.
void may_change(Option& option) { option.may_change = true; }

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
                "auto: a GPU gets the kernels of steps as CUDA graphs, where it can record them; "
                "the bits are the same; nothing on CPUs"));
  may_change(
      table.add("run.device-streams", run.device_streams, between(1, 32),
                "clients of a network of one's own whose kernels a GPU may run at once, each with "
                "memory for its own pass; the bits are the same; nothing on CPUs"));
  may_change(
      table.add("run.max-seconds", run.max_seconds, at_least(0),
                "seconds after which the run stops with a checkpoint and status 75; 0: no limit"));
  table.add("run.patience", run.patience, at_least(0),
            "evaluations without a better evaluate.best after which the run ends; 0: no limit");
  table.add("run.target", run.target,
            "metric>=value or metric<=value of an evaluation that ends the run; empty: none");
  may_change(table.add(
      "run.on-divergence", run.on_divergence,
      "a training whose numbers leave the range: an error; or stop: the run saves the model of the "
      "round before, and ends with status 0; it keeps copies of model and states"));
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
  bind_model_files(table, run);
  may_change(
      table.add("run.overwrite", run.overwrite, "replace an earlier run's results in run.out"));
}

// Binds the seed of a section that can have its own.
void bind_seed(OptionTable& table, std::string section, int64_t& seed, std::string of) {
  table.add(section + ".seed", seed, or_auto(at_least(1)), "seed of " + of + "; auto: run.seed");
}

void bind_data(OptionTable& table, DataOptions& data) {
  bind_seed(table, "data", data.seed, "the partition, the test split and made-up samples");
  table.add("data.labels", data.labels, at_least(0),
            "classes to keep, renumbered 0, 1, ... in this order; empty: all");
  table.add("data.test-fraction", data.test_fraction, at_least(0),
            "share of each client's samples kept for testing, or from 1 on their number, "
            "stratified by label (texts: the end of each, a number of tokens); 0: evaluate on the "
            "training samples; not used where clients have test samples of their own");
  table.add("data.validation-fraction", data.validation_fraction, at_least(0),
            "the same of what tests leave of each client, for validation (evaluate.on); 0: none");
  table.add("data.normalize", data.normalize,
            "images: none; all: centre and scale each channel by all clients' training samples; or "
            "the channels' means and then their deviations, 0.49,0.48,0.45,0.25,0.24,0.26");
  table.add("data.standardize", data.standardize,
            "centre and scale a csv's features by the training samples of each client, or of all");
}

void bind_federation(OptionTable& table, FederationOptions& federation) {
  table.add("federation.clients", federation.clients, at_least(1),
            "number of clients; by-column: taken from the data");
  table.add("federation.held-out", federation.held_out,
            "clients that are evaluated and never trained on: a share below 1, a number, or names "
            "separated by commas; one that is a number is written name:3");
  table.add("federation.validation-clients", federation.validation_clients,
            "the same of the others, for validation (evaluate.on)");
}

void bind_model(OptionTable& table, ModelOptions& model) {
  table.add_choice("model.loss", model.loss, names_of_all<LossRule>(),
                   "loss of one sample; the mean over a batch is minimised. binary-logistic is for "
                   "two classes, and for several labels a sample (sigmoid cross-entropy)");
  table.add("model.init", model.init,
            "initial parameters; auto: +-1/sqrt(inputs of the unit), norms 1 and 0, "
            "graph: the file's; uniform: the same, not for graph");
  table.add("model.precision", model.precision,
            "format of products' factors; sums are float32. tf32 is for GPUs; graph has float32 "
            "alone");
  may_change(table.add(
      "model.frozen-cache", model.frozen_cache,
      "where graphs and networks of convolutions keep what they compute of a sample before the "
      "first tensor that client.train "
      "or client.lora moves: memory of a host, a mapped file that runs share, or nowhere; auto: "
      "memory if it fits; the bits are the same"));
  may_change(table.add("model.frozen-cache-path", model.frozen_cache_path,
                       "folder of such files; empty: that of data.path"));
  bind_seed(table, "model", model.seed, "the initial parameters");
  table.add(
      "model.base-precision", model.base_precision,
      "how the frozen tensors of client.train and client.lora lie in memory; bfloat16: rounded "
      "once, and widened when they are used; half the memory for graph, the same for others");
  table.add(
      "model.start", model.start,
      "file whose tensors the model starts from, by name: model.h5 of a run, a state dict "
      "of torch.save, safetensors or an index of their shards; or a folder of PEFT's adapters, "
      "with client.lora = auto; empty: none");
  table.add("model.start-partial", model.start_partial,
            "take what the file has of the model's tensors; the others start by model.init");
}

void bind_client(OptionTable& table, ClientOptions& client) {
  bind_seed(table, "client", client.seed, "what clients draw: orders of samples, dropout");
  table.add("client.epochs", client.epochs, at_least(1),
            "passes over the client's samples a round; not used when client.steps > 0");
  table.add("client.steps", client.steps, at_least(0), "mini-batch steps a round; 0: epochs");
  table.add("client.phases", client.phases,
            "what the steps of a round move, one after the other: all, shared, personal "
            "(client.personal), clustered (client.clustered) or a tensor's name with * and ?, each "
            "with its epochs, or its steps where client.steps > 0, e.g. personal 10, shared 5; "
            "empty: all");
  table.add("client.batch", client.batch, at_least(0), "samples a step; 0: all of the client's");
  table.add("client.drop-last", client.drop_last,
            "leave out the last batch of a pass where it has fewer than client.batch samples; a "
            "client with fewer in all takes the one batch that it has");
  table.add("client.lr", client.lr, above(0), "step size, from which client.schedule departs");
  table.add("client.schedule-over", client.schedule.over,
            "counts the run's rounds, or the steps of a client's round, anew in each");
  table.add("client.warmup", client.schedule.warmup, at_least(0),
            "rounds or steps in front of the schedule in which the step size rises linearly");
  table.add("client.momentum", client.momentum, from_below(0, 1),
            "share of the velocity that stays; for client.optimizer = sgd and rmsprop");
  table.add("client.weight-decay", client.weight_decay, at_least(0),
            "L2 penalty / 2; adamw: decay beside the gradient");
  table.add("client.accumulate", client.accumulate, at_least(1),
            "mini-batches whose mean gradient makes one step");
  table.add("client.clip", client.clip, at_least(0), "largest gradient norm; 0: off");
  table.add("client.worker-momentum", client.worker_momentum, from_below(0, 1),
            "beta: clients send m <- beta m + (1 - beta) u in the place of their updates u, and "
            "keep m between rounds; 0: they send u");
  AugmentationOptions& augmentation = client.augmentation;
  table.add("client.crop", augmentation.crop, at_least(0),
            "pixels by which images are moved at random, each way, in training; 0: none");
  table.add("client.flip", augmentation.flip, between(0.0, 1.0),
            "probability with which left and right of an image change places in training");
  table.add("client.cutout", augmentation.cutout, at_least(0),
            "side of a square at a random place that is 0 in training; 0: none");
  table.add("client.mixup", augmentation.mixup, at_least(0),
            "a of the shares ~ Beta(a, a) in which images are mixed in training; 0: none");
  bind_part(table, client);
  bind_clusters(table, client);
  table.add("client.objective", client.objective,
            "file of a loss of your own for training, TorchScript; empty: model.loss. Evaluations "
            "keep model.loss");
  table.add("client.label-smoothing", client.label_smoothing, from_below(0, 1),
            "share of each label that is spread evenly over all classes in training");
  table.add("client.class-weights", client.class_weights,
            "what a sample counts in training, by its class: none; client or all: balanced by the "
            "labels of the client, or of all of them; or a list of weights");
  table.add(
      "client.state-memory", client.state_memory, at_least(0),
      "MiB a rank for client states; what is beyond lies in a mapped file in the run directory");
}

void bind_sampler(OptionTable& table, SamplerOptions& sampler) {
  bind_seed(table, "sampler", sampler.seed, "who is there, and who is drawn");
  table.add("sampler.availability", sampler.availability,
            "who is there: always; a probability in (0, 1]; blocks(n) or blocks(n, rounds), one of "
            "n blocks of clients at a time; or a file of lines client,first round,last round");
}

void bind_server(OptionTable& table, ServerOptions& server) {
  table.add("server.lr", server.lr, above(0), "step size of the server in the first round");
  table.add("server.lr-decay", server.lr_decay, above(0), "factor on server.lr ...");
  table.add("server.lr-decay-every", server.lr_decay_every, at_least(1),
            "... every so many rounds");
  table.add("server.extrapolate", server.extrapolate,
            "FedExP (Jhunjhunwala et al. 2023): a longer step where updates differ, by the factor "
            "max(1, sum c_i |D_i|^2 / (2 (|D|^2 + epsilon))), D the mean of the updates D_i");
  table.add("server.extrapolate-epsilon", server.extrapolate_epsilon, at_least(0),
            "epsilon in it, in the unit of a squared update; larger is more careful");
  table.add("server.average", server.average,
            "also keep the mean of the models behind all rounds (AFL's result), evaluate it, and "
            "write it to averaged.h5");
  may_change(table.add("server.role", server.role,
                       "does rank 0 train clients too? auto: when it runs alone or on one host"));
}

void bind_compression(OptionTable& table, CompressionOptions& compression) {
  table.add("comm.compress", compression.compress,
            "how updates are compressed before they are summed; the sum is of what is sent");
  table.add("comm.keep", compression.keep, above(0),
            "top-k, random-k: entries that are sent, a share below 1 or a number");
  table.add("comm.bits", compression.bits, between(2, 16), "quantize: bits of an entry");
  table.add("comm.error-feedback", compression.error_feedback,
            "a client adds what its messages have left out to its next update");
}

void bind_comm(OptionTable& table, CommOptions& comm) {
  may_change(
      table.add("comm.reduction", comm.reduction,
                "exact: 64-bit integers, the same bits for any number of ranks; fast: float32, "
                "half the bytes"));
  may_change(
      table.add("comm.dispatch", comm.dispatch,
                "planned: spread evenly by measured cost; shared: free ranks take the next "
                "client, on one host or from a server that trains none (auto, where it can)"));
  may_change(table.add(
      "comm.devices", comm.devices,
      "how GPUs of ranks exchange sums and rows: by NCCL, or staged in the hosts' memory; auto: by "
      "NCCL where there are several ranks and no two have the same GPU; the same bits"));
  may_change(table.add(
      "comm.masks", comm.masks,
      "each rank's part of the updates' sum travels under masks of pairs of ranks, which cancel in "
      "the sum; the same bits; auto: in rounds that are private for clients"));
  may_change(table.add(
      "comm.timeout-seconds", comm.timeout_seconds, at_least(0),
      "seconds that ranks wait for one that does not come before they name it and end; longer "
      "than any rank trains in a round; 0: forever"));
}

void bind_evaluate(OptionTable& table, EvaluateOptions& evaluate) {
  may_change(table.add("evaluate.every", evaluate.every, at_least(0),
                       "rounds between evaluations of all clients; 0: after the last round only"));
  table.add("evaluate.clients", evaluate.clients, at_least(0),
            "clients that each evaluation is of, drawn anew from those in training, and as many of "
            "those held out; 0: all");
  table.add("evaluate.history", evaluate.history,
            "keep every client's numbers of every evaluation, in history.h5");
  table.add("evaluate.on", evaluate.on,
            "samples of each client that evaluations are of; evaluate.best, run.patience and "
            "run.target watch those for validation where they are among them");
  table.add(
      "evaluate.best", evaluate.best,
      "metric of evaluations, with :max or :min behind it, whose best model is kept as best.h5; "
      "losses and spreads are better small, all else large; empty: none is kept");
  table.add("evaluate.start", evaluate.start, "evaluate the initial model too, as round 0");
  may_change(
      table.add("evaluate.view", evaluate.view,
                "global: the shared model; personalised: every client's own, or what a round of "
                "training makes of the shared one; auto: own where clients have one"));
  table.add("evaluate.tune-steps", evaluate.tune_steps, at_least(0),
            "steps that a copy of the model of the view makes on each client's training samples "
            "before it is evaluated there, as [client] says; 0: none");
  table.add("evaluate.tune", evaluate.tune,
            "names of tensors that these steps move, frozen ones too; empty: what training moves");
  table.add(
      "evaluate.metrics", evaluate.metrics,
      "metrics of each client's test samples beside loss, accuracy and AUROC of two classes, "
      "separated by commas: top5, balanced-accuracy, f1 (two classes), classes (classes.csv), "
      "confusion (confusion.csv, of the last evaluation), brier, ece, auprc, of several classes "
      "auroc-macro, auroc-prevalence, hit-rate@k, ndcg@k, mrr, perplexity, of several labels "
      "recall@k, average-precision, micro-f1, of regression mse, mae; lora-gap: of each round, how "
      "far means of adapters are from the mean of their products; empty: none");
  may_change(table.add("evaluate.scores", evaluate.scores,
                       "write what the model says of each sample: scores.csv of the last "
                       "evaluation, best-scores.csv of the one that evaluate.best keeps"));
  table.add(
      "evaluate.metric", evaluate.metric.path,
      "a Python file or a library with a metric of your own over the clients: more columns of "
      "evaluations.csv; empty: none");
  table.add("evaluate.metric-digest", evaluate.metric.digest,
            "digest of that file, which a run writes; another file is refused; empty: not known");
  may_change(table.add(
      "evaluate.regret", evaluate.regret,
      "measure the sampler's variance and regret, for studies: all clients train in every "
      "round"));
}

void bind_checkpoint(OptionTable& table, CheckpointOptions& checkpoint) {
  may_change(table.add("checkpoint.every", checkpoint.every, at_least(0),
                       "rounds between checkpoints; 0: after the last round and when stopped"));
  may_change(table.add("checkpoint.keep", checkpoint.keep, at_least(0), "newest kept; 0: all"));
  may_change(
      table.add("checkpoint.on-error", checkpoint.on_error, "when a checkpoint cannot be written"));
}

void bind_report(OptionTable& table, RunOptions& run) {
  may_change(
      table.add("report.participation", run.report.participation,
                "write participation.csv, a line a round and participant; auto: where "
                "run.rounds times the participants of a round are 1,000,000 or fewer, as the "
                "first start finds it"));
  may_change(table.add("report.tensorboard", run.report.tensorboard,
                       "ignored: scripts/log-to writes TensorBoard's event files of a run"));
}

void bind_simulate(OptionTable& table, SimulateOptions& simulate) {
  table.add("simulate.sample-us", simulate.sample_us, at_least(0),
            "microseconds for a sample that a client would train on, and for its part of the sum: "
            "nobody is trained, and times are those of the machines below; 0: clients are trained");
  may_change(table.add("simulate.hosts", simulate.hosts, at_least(1),
                       "hosts that the ranks lie on, in blocks"));
  may_change(table.add("simulate.cores", simulate.cores, or_auto(above(0)),
                       "cores of a host; auto: as many as its ranks can use"));
  table.add("simulate.link-gbit", simulate.link_gbit, above(0), "Gbit/s of a host's link each way");
  table.add("simulate.latency-us", simulate.latency_us, at_least(0),
            "microseconds of a message between hosts");
  table.add("simulate.memory-gbit", simulate.memory_gbit, above(0),
            "Gbit/s between a host's ranks");
  table.add("simulate.memory-latency-us", simulate.memory_latency_us, at_least(0),
            "microseconds of a message between the ranks of a host");
}

struct Section {
  const char* name;
  void (*bind)(OptionTable& table, Job& job);  // null: kinds have all its keys
};

template <auto kSection, auto kBind>
void bind(OptionTable& table, Job& job) {
  kBind(table, job.*kSection);
}

// In the order of job.cfg.
constexpr Section kSections[] = {{"run", bind<&Job::run, bind_run>},
                                 {"data", bind<&Job::data, bind_data>},
                                 {"federation", bind<&Job::federation, bind_federation>},
                                 {"model", bind<&Job::model, bind_model>},
                                 {"client", bind<&Job::client, bind_client>},
                                 {"sampler", bind<&Job::sampler, bind_sampler>},
                                 {"aggregator", nullptr},
                                 {"attack", nullptr},
                                 {"privacy", nullptr},
                                 {"server", bind<&Job::server, bind_server>},
                                 {"comm", bind<&Job::compression, bind_compression>},
                                 {"comm", bind<&Job::comm, bind_comm>},
                                 {"evaluate", bind<&Job::evaluate, bind_evaluate>},
                                 {"checkpoint", bind<&Job::checkpoint, bind_checkpoint>},
                                 {"report", bind<&Job::run, bind_report>},
                                 {"simulate", bind<&Job::simulate, bind_simulate>},
                                 {"clock", nullptr},
                                 {"async", nullptr},
                                 {"bandit", bind<&Job::bandit, bind_bandit>},
                                 {"online", bind<&Job::online, bind_online>},
                                 {"statistics", bind<&Job::statistics, bind_statistics>}};

// Files that may lie elsewhere when a run is resumed: checkpoints have their digests, or the
// digests of their contents.
constexpr const char* kMovableFiles[] = {
    "data.path",        "data.test-path", "model.path",           "model.start",
    "client.objective", "sampler.path",   "sampler.availability", "aggregator.path",
    "attack.path",      "server.path",    "evaluate.metric",      "bandit.path"};

}  // namespace

KeyedJob::KeyedJob(std::span<const KindFamily> families) {
  for (const Section& section : kSections) {
    for (const KindFamily& family : families) {
      if (family.section() != section.name) continue;
      if (family.several) {
        table.add(family.key, family.choice(*this), family.help);
        continue;
      }
      table.add_choice(family.key, family.choice(*this), names_of(family.rows), family.help)
          .former = family.former;
    }
    if (section.bind) section.bind(table, *this);
  }
  for (const KindFamily& family : families) {
    for (const auto& row : family.rows) {
      OptionTable keys;
      row.keys.bind(keys, *this);
      table.add_uses(keys, family.key, row.name);
    }
  }
  table.let_change(kMovableFiles);
  table.gather_sections();
}

}  // namespace hanse
