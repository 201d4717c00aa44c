// A job: the values of every option of a run, section by section.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "hanse/client/options.hpp"
#include "hanse/comm/comm_options.hpp"
#include "hanse/data/options.hpp"
#include "hanse/evaluation/evaluate_on.hpp"
#include "hanse/job/bandit_options.hpp"
#include "hanse/job/online_options.hpp"
#include "hanse/model/options.hpp"
#include "hanse/protocol/compression_options.hpp"
#include "hanse/protocol/server_options.hpp"
#include "hanse/rules/aggregation/aggregator_options.hpp"
#include "hanse/rules/attack/options.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/privacy/options.hpp"
#include "hanse/rules/sampling/options.hpp"
#include "hanse/rules/statistics/options.hpp"

namespace hanse {

// Many ranks on few cores, as if each had the machine that is told here.
struct SimulateOptions {
  double sample_us = 0;  // of training, for each sample; 0: clients are trained
  int64_t hosts = 1;     // that ranks lie on
  double cores = 0;      // of a host; 0: one for each thread of its ranks
  double link_gbit = 10;
  double latency_us = 20;
  double memory_gbit = 20;  // between the ranks of a host
  double memory_latency_us = 1;

  bool is_on() const { return sample_us > 0; }
};

// Where clients are trained; auto: on GPUs where build, host and job allow it and the model is
// large enough.
enum class RunDevice { kAuto, kCpu, kCuda };
constexpr auto choices_of(RunDevice) { return std::array{"auto", "cpu", "cuda"}; }

// Does a GPU get the kernels of a step as one graph, where it can record one?
enum class DeviceGraphs { kAuto, kOff };
constexpr auto choices_of(DeviceGraphs) { return std::array{"auto", "off"}; }

// What becomes of a run whose training diverges.
enum class OnDivergence { kError, kStop };
constexpr auto choices_of(OnDivergence) { return std::array{"error", "stop"}; }

// Does a run write participation.csv? auto: where it has few lines enough.
enum class ReportParticipation { kAuto, kTrue, kFalse };
constexpr auto choices_of(ReportParticipation) { return std::array{"auto", "true", "false"}; }

// Formats in which a run also writes its adapters.
enum class AdapterFormat { kNone, kPeft };
constexpr auto choices_of(AdapterFormat) { return std::array{"none", "peft"}; }

struct ReportOptions {
  ReportParticipation participation = ReportParticipation::kAuto;
  bool tensorboard = false;  // ignored; jobs of older versions have it
};

struct RunOptions {
  std::string protocol = "federated";
  std::string name;  // default: the job file's name
  int64_t seed = 1;
  std::string out;  // default: runs/NAME
  int64_t rounds = 100;
  int64_t repeats = 1;  // of seeds seed, seed + 1, ...
  int64_t threads = 1;  // of each rank
  RunDevice device = RunDevice::kAuto;
  int64_t ranks_per_gpu = 1;
  int64_t device_cohort = 0;  // clients side by side on a GPU; 0: side_by_side()
  DeviceGraphs device_graphs = DeviceGraphs::kAuto;
  int64_t device_streams = 4;  // KernelStarts
  double max_seconds = 0;      // 0: no limit
  int64_t patience = 0;        // evaluations without a better one; 0: no limit
  std::string target;          // "metric>=value" that ends the run; empty: none
  double round_seconds = 0;    // 0: no limit
  OnDivergence on_divergence = OnDivergence::kError;
  bool overwrite = false;
  bool trace = false;
  bool timeline = false;
  bool check_rules = false;
  std::string state_dict = "false";  // true: state_dict.pt; safetensors: model.safetensors
  bool merge_adapters = false;
  AdapterFormat adapters = AdapterFormat::kNone;
  ReportOptions report;  // keys of [report]
};

// The shared model is evaluated; or every client's own, or what a round of training makes of the
// shared one. auto: own where clients have one.
enum class EvaluateView { kAuto, kGlobal, kPersonalised };
constexpr auto choices_of(EvaluateView) { return std::array{"auto", "global", "personalised"}; }

struct EvaluateOptions {
  int64_t every = 10;    // rounds; 0: after the last round only
  int64_t clients = 0;   // drawn for each evaluation; 0: all
  bool history = false;  // history.h5
  bool start = false;    // the initial model too, as round 0
  EvaluateOn on = EvaluateOn::kTest;
  std::string best;  // metric, metric:max or metric:min; empty: no best model is kept
  EvaluateView view = EvaluateView::kAuto;
  int64_t tune_steps = 0;  // steps of the view's models for each client; 0: none
  std::string tune;        // names of tensors that they move; empty: what training moves
  std::string metrics;     // more metrics, see evaluation/asked_metrics.hpp
  bool scores = false;     // scores.csv, best-scores.csv
  bool regret = false;     // the sampler's; all clients train in every round
  RuleFile metric;         // the user's own; no path: none
};

// The reaction to a checkpoint that cannot be written.
enum class OnError { kContinue, kStop };
constexpr auto choices_of(OnError) { return std::array{"continue", "stop"}; }

struct CheckpointOptions {
  int64_t every = 100;  // rounds; 0: after the last round, and when stopped
  int64_t keep = 2;     // newest ones; 0: all
  OnError on_error = OnError::kContinue;
};

struct Job {
  RunOptions run;
  DataOptions data;
  FederationOptions federation;
  ModelOptions model;
  ClientOptions client;
  SamplerOptions sampler;
  AggregatorOptions aggregator;
  AttackOptions attack;
  PrivacyOptions privacy;
  ServerOptions server;
  CompressionOptions compression;  // keys of [comm], too
  CommOptions comm;
  EvaluateOptions evaluate;
  CheckpointOptions checkpoint;
  SimulateOptions simulate;
  ClockOptions clock;
  AsyncOptions async;
  BanditOptions bandit;
  OnlineOptions online;
  StatisticsOptions statistics;
};

// data.seed, model.seed, sampler.seed, client.seed or clock.seed; where it is 0, run.seed.
inline uint64_t seed_of(const Job& job, int64_t seed) {
  return static_cast<uint64_t>(seed > 0 ? seed : job.run.seed);
}

}  // namespace hanse
