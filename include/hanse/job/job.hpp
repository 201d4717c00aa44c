// A job: the values of every option of a run, section by section.
#pragma once

#include "hanse/client/local_update.hpp"
#include "hanse/comm/comm_options.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"
#include "hanse/job/aggregator_options.hpp"
#include "hanse/job/bandit_options.hpp"
#include "hanse/job/online_options.hpp"
#include "hanse/job/run_options.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/sampling/options.hpp"

namespace hanse {

struct Job {
  RunOptions run;
  DataOptions data;
  FederationOptions federation;
  ModelOptions model;
  ClientOptions client;
  SamplerOptions sampler;
  AggregatorOptions aggregator;
  ServerOptions server;
  CommOptions comm;
  EvaluateOptions evaluate;
  CheckpointOptions checkpoint;
  ReportOptions report;
  BanditOptions bandit;
  OnlineOptions online;
};

}  // namespace hanse
