#include "protocol/tiny_training.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "hanse/rules/sampling/basic.hpp"
#include "hanse/rules/sampling/learning.hpp"
#include "hanse/rules/sampling/timed.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {

Federation tiny_federation(Communicator& host, double test_fraction, int64_t held_out) {
  DataOptions data;
  data.kind = "random";
  data.shape = {3};
  data.classes = 2;
  data.test_fraction = test_fraction;
  FederationOptions options;
  options.clients = kClients;
  options.partition = "power-law";
  options.samples = 12;
  options.held_out = static_cast<double>(held_out);
  return Federation::load(data, options, kSeed, host);
}

TinyModel::TinyModel() { layout_.add("w", {kParams}, 4); }

double TinyModel::loss_and_gradient(std::span<const float>, const Batch&, RandomStream&,
                                    std::span<float>) {
  return 0;
}

EvaluationSums TinyModel::evaluate(std::span<const float> row, const Batch& batch, SampleResults) {
  if (at_evaluation) at_evaluation();
  EvaluationSums sums{.samples = batch.rows};
  for (int64_t i = 0; i < batch.rows; ++i) {
    const float* x = batch.features + 3 * i;
    const double score = static_cast<double>(row[0] * x[0] + row[1] * x[1] + row[18] * x[2]);
    const bool broken = broken_feature != 0 && x[0] == broken_feature;
    sums.loss += broken ? std::numeric_limits<double>::quiet_NaN() : score * score + 0.5;
    sums.correct += (score > 0) == (batch.labels[i] == 1) ? 1 : 0;
  }
  return sums;
}

ClientOutcome TinyUpdate::train(const ClientTask& task) {
  RandomStream noise(task.seed, Purpose::kShuffle, static_cast<uint64_t>(task.key()),
                     static_cast<uint64_t>(task.client));
  const auto client = static_cast<double>(task.client);
  ClientOutcome outcome{.loss = 1 + 0.01 * client + static_cast<double>(task.row[2]), .samples = 1};
  for (std::size_t i = 0; i < task.row.size(); ++i) {
    const double target = std::sin(1.3 * client + static_cast<double>(i));
    const double pull = 0.1 * (target - static_cast<double>(task.row[i]));
    task.row[i] += static_cast<float>(pull + 0.01 * noise.normal());
  }
  for (std::size_t j = 0; j < task.state.size(); ++j) {
    task.state[j] = 0.5F * task.state[j] + task.row[j] + static_cast<float>(task.client);
    task.row[j] += 0.01F * task.state[j];
  }
  if (task.squares) outcome.squares = outcome.loss * outcome.loss;
  if (spoil) spoil(task, outcome);
  return outcome;
}

Mix LossAggregator::mix(const RoundReport& report) {
  clients.assign(report.clients.begin(), report.clients.end());
  losses.assign(report.losses.begin(), report.losses.end());
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  Mix mix;
  for (const double loss : losses) mix.coefficients.push_back(loss / sum);
  return mix;
}

namespace {

std::vector<double> sample_shares(const Federation& federation) {
  std::vector<double> lambda;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    lambda.push_back(static_cast<double>(federation.train(client).size()) /
                     static_cast<double>(federation.train_samples()));
  }
  return lambda;
}

LearningOptions osmd_options(const TinyJob& job, OsmdKind kind) {
  return {.kind = kind, .replacement = job.replacement, .rate_scale = 1000, .horizon = 16};
}

}  // namespace

std::unique_ptr<ClientSampler> make_tiny_sampler(const TinyJob& job, const Federation& federation) {
  const int64_t clients = federation.clients();
  const auto osmd = [&](OsmdKind kind) {
    return make_osmd_sampler(osmd_options(job, kind), clients, job.per_round);
  };
  const LearningOptions baseline{
      .replacement = job.replacement, .rate_scale = 1000, .horizon = 16, .mixing = 0.4};
  if (job.sampler == "full") return make_full_sampler(clients);
  if (job.sampler == "uniform") return make_uniform_sampler(clients, job.per_round);
  if (job.sampler == "osmd") return osmd(OsmdKind::kFixed);
  if (job.sampler == "adaptive-osmd") return osmd(OsmdKind::kAdaptive);
  if (job.sampler == "osmd-doubling") return osmd(OsmdKind::kDoubling);
  if (job.sampler == "mabs") return make_mabs_sampler(baseline, clients, job.per_round);
  if (job.sampler == "vrb") return make_vrb_sampler(baseline, clients, job.per_round);
  if (job.sampler == "avare") {
    return make_avare_sampler({.replacement = job.replacement}, clients, job.per_round);
  }
  if (job.sampler == "oort") {
    const OortOptions options{.exploration = 0.5, .exploration_decay = 0.8};
    return make_oort_sampler(options, Variant::kPaper, sample_shares(federation), job.per_round);
  }
  if (job.sampler == "power-of-choice") {
    return make_power_of_choice_sampler(sample_shares(federation), job.per_round, 0);
  }
  if (job.sampler == "optimal") {
    return make_optimal_sampler(clients, job.per_round, job.replacement);
  }
  return make_weighted_sampler(sample_shares(federation), job.per_round, job.replacement);
}

TinyTraining::TinyTraining(Communicator& all, const TinyJob& job)
    : TrainerFixture(
          all, [&](Communicator& local) { return tiny_federation(local, 0.25, job.held_out); },
          job.apart) {
  model = std::make_unique<TinyModel>();
  update = std::make_unique<TinyUpdate>(job.stateful);
  if (job.own_rule) {
    aggregator = job.own_rule();
  } else if (job.by_losses) {
    aggregator = std::make_unique<LossAggregator>();
  } else {
    aggregator = make_fedavg(job.fedavg.weights, job.fedavg.estimator, federation.clients());
  }
  if (comm.rank() == 0) {
    sampler = job.own_sampler ? job.own_sampler() : make_tiny_sampler(job, federation);
    if (job.availability) availability = job.availability();
  }
  if (job.round_part) round_part = job.round_part(comm);
  stages.updates = job.stages;
  if (job.turnout && sampler) turnout = job.turnout();
  if (job.attackers) attackers = job.attackers();
  root = job.root;
  if (job.privacy) privacy = job.privacy(comm);
  settings.seed = kSeed;
  settings.server = job.server;
  settings.comm = job.comm;
  settings.regret = job.regret;
  settings.squares = job.sampler == "oort";
  settings.own_models = job.own_models;
  settings.clock = job.clock;
  settings.round_seconds = job.round_seconds;
  settings.participation = job.participation;
  settings.timed = job.timed;
  settings.async = job.async;
  settings.trace = job.trace;
  start();
}

std::vector<float> train_on(Communicator& comm, const TinyJob& job, int64_t rounds) {
  TinyTraining training(comm, job);
  for (int64_t round = 0; round < rounds; ++round) training.trainer->round(false);
  if (comm.rank() != 0) return {};
  const auto row = training.trainer->model_row();
  return {row.begin(), row.end()};
}

std::vector<float> train_threads(int ranks, const TinyJob& job, int64_t rounds) {
  std::vector<float> row;
  run_threads(ranks, [&](Communicator& comm) {
    auto mine = train_on(comm, job, rounds);
    if (comm.rank() == 0) row = std::move(mine);
  });
  return row;
}

}  // namespace hanse
