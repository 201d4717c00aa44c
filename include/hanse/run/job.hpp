// A job: every option of a run, from a job file and the command line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/options.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/comm/comm_options.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/run/bandit.hpp"
#include "hanse/run/online_job.hpp"

namespace hanse {

struct RunOptions {
  std::string protocol = "federated";
  std::string name;  // default: the job file's name
  int64_t seed = 1;
  std::string out;  // default: runs/NAME
  int64_t rounds = 100;
  int64_t repeats = 1;          // bandit
  int64_t threads = 1;          // of each rank
  std::string device = "auto";  // auto | cpu | cuda
  int64_t ranks_per_gpu = 1;
  int64_t device_cohort = 8;  // clients side by side on a GPU
  double max_seconds = 0;     // 0: no limit
  double round_seconds = 0;   // 0: no limit
  bool overwrite = false;
  bool trace = false;
  bool state_dict = false;
};

struct SamplerOptions {
  std::string kind = "uniform";
  int64_t per_round = 10;
  bool replacement = true;
  std::string availability = "always";
  double alpha = 0.4;  // osmd family: p >= alpha/M
  std::string variant = "paper";
  double rate_scale = 1;
  std::string a_max = "auto";    // auto | first-round | running | a number
  int64_t horizon = 0;           // 0: run.rounds of the first start
  std::string eta = "auto";      // osmd
  std::string gamma = "auto";    // adaptive-osmd, osmd-doubling
  std::string restart = "last";  // osmd-doubling
  double mixing = 0;             // mabs, vrb: share of uniform draws; 0: their papers'
  std::string rate = "auto";     // mabs
  double c = 0;                  // avare; 0: M
  double delta = 1;              // avare
};

struct AggregatorOptions {
  std::string kind = "fedavg";
  std::string weights = "samples";  // fedavg, propfair
  std::string estimator = "normalized";
  std::string loss = "full";  // full | batches(n): samples of the losses a rule needs
  std::string variant = "paper";
  std::string cdf = "normal";  // aaggff: response transform
  double c1 = 0;
  double c2 = 0;           // 0: 1/K (aaggff-s), the participation (aaggff-d)
  double alpha = 0;        // aaggff-s; 0: 4 K L
  double beta = 0;         // aaggff-s; 0: 1/(4 L)
  double rate = 0.01;      // afl
  double q = 1;            // qfedavg
  double lipschitz = 0;    // qfedavg; 0: 1 / client.lr
  double temperature = 1;  // term
  double tail = 0.5;       // superquantile
  double base = 2;         // propfair: M
  double epsilon = 0.1;    // fedmgda+
  double radius = 0;       // dqn-fed: longest step; 0: no limit
  int64_t backtrack = 0;   // dqn-fed: halvings of the step; 0: off
};

struct EvaluateOptions {
  int64_t every = 10;         // rounds; 0: after the last round only
  std::string view = "auto";  // auto | global | personalised
  bool regret = false;        // of the sampler; all clients train in every round
};

struct CheckpointOptions {
  int64_t every = 100;                // rounds; 0: after the last round, and when stopped
  int64_t keep = 2;                   // newest; 0: all
  std::string on_error = "continue";  // continue | stop
};

struct ReportOptions {
  bool tensorboard = false;
};

// The fields and the table of names bound to them.
struct Job {
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  RunOptions run;
  DataOptions data;
  FederationOptions federation;
  ModelOptions model;
  ClientOptions client;
  SamplerOptions sampler;
  AggregatorOptions aggregator;
  ServerOptions server;
  CommOptions comm;
  OnlineOptions online;
  EvaluateOptions evaluate;
  CheckpointOptions checkpoint;
  ReportOptions report;
  BanditOptions bandit;

  OptionTable table;
};

using Overrides = std::vector<std::pair<std::string, std::string>>;  // key, value

// Reads "[section]" and "key = value" lines into `job`; then `overrides` from the command line,
// which win. '#' starts a comment. Fills run.name, run.out, online.horizon and evaluate.view when
// they are not given.
// Throws InvalidArgument that names file, line and key.
void load_job(const std::string& path, const Overrides& overrides, Job& job);

// Every option with its value, as a valid job file.
std::string job_text(const Job& job);

// Keys the user gave that the job does not use, for one notice: of sections that its protocol does
// not read, or of other kinds of theirs.
std::vector<std::string> unused_keys(const Job& job);

// evaluate.view: are clients evaluated with models of their own? `auto` says so of ditto,
// client.personal and run.protocol = local.
bool evaluates_own_models(const Job& job);

// n of "batches(n)", 0 of "full". Throws InvalidArgument for anything else.
int64_t loss_batches(const std::string& text);

// The number of sampler.a-max, 0 of its words. Throws InvalidArgument for anything else.
double given_bound(const std::string& text);

// The number of "auto" (-1) or of a value >= 0. Throws InvalidArgument, naming `where`.
double number_or_auto(const std::string& text, const std::string& where);

// Checks what can be checked without data: combinations of options, and that each file is there.
// Throws InvalidArgument.
void check_job(const Job& job);

// The same for [data] and [federation] alone.
void check_data(const Job& job);

}  // namespace hanse
