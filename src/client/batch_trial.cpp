#include "hanse/client/batch_trial.hpp"

#include <algorithm>
#include <map>
#include <new>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/client/gathered_batch.hpp"

namespace hanse {

namespace {

// The trials by training and rows.
using Trials = std::map<std::pair<bool, int64_t>, BatchTrial>;

void add(Trials& trials, const BatchTrial& trial) {
  if (trial.rows > 0) trials.try_emplace({trial.training, trial.rows}, trial);
}

std::vector<BatchTrial> listed(const Trials& trials) {
  std::vector<BatchTrial> list;
  for (const auto& [size, trial] : trials) list.push_back(trial);
  return list;
}

// Adds whole batches of a client with `samples`, and what is left of them at the end of a pass.
void add_training(Trials& trials, const LocalWork& work, int64_t client, int64_t samples) {
  if (samples == 0) return;
  const int64_t batch = work.batch > 0 ? std::min(work.batch, samples) : samples;
  add(trials, {.rows = batch,
               .client = client,
               .hint = batch == work.batch
                           ? "use another client.batch"
                           : "leave out clients with so few samples, or use another model"});
  const int64_t pass = samples_a_pass(work, samples);
  if (local_steps(work, samples) <= pass / batch) return;  // they end before the rest
  add(trials, {.rows = pass % batch,
               .client = client,
               .hint = "client.drop-last = true leaves out a last batch that is smaller"});
}

void add_evaluation(Trials& trials, int64_t client, int64_t samples, int64_t most) {
  const std::string hint = "use a model that evaluates any number of samples";
  for (const int64_t rows : {std::min(samples, most), samples % most}) {
    add(trials, {.rows = rows, .client = client, .training = false, .hint = hint});
  }
}

void pass(const BatchTrial& trial, const Federation& federation, Model& model) {
  const SampleRange trained = federation.train(trial.client);
  const SampleRange samples = trained.size() > 0 ? trained : federation.test(trial.client);
  std::vector<int32_t> order(static_cast<std::size_t>(trial.rows));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int32_t>(static_cast<int64_t>(i) % samples.size());
  }
  GatheredBatch batch;
  batch.gather(federation, samples.begin, order);
  std::vector<float> row(static_cast<std::size_t>(model.n_params()));
  RandomStream noise(0, Purpose::kDropout);
  model.initialize(row, noise);
  if (trial.training) {
    model.receive({row});
    std::vector<float> gradient(row.size());
    model.loss_and_gradient(row, batch.view(), noise, gradient);
  } else {
    model.evaluate(row, batch.view());
  }
}

}  // namespace

std::vector<BatchTrial> batch_trials(const LocalWork& work, const Federation& federation,
                                     const Model& model, int64_t trained, int64_t loss_batches) {
  Trials trials;
  if (work.pooled) add_training(trials, work, 0, federation.train_samples());
  for (int64_t client = 0; client < federation.clients() + federation.held_out(); ++client) {
    const int64_t samples = federation.train(client).size();
    if (!work.pooled && client < trained) add_training(trials, work, client, samples);
    for (const int64_t n :
         {samples, federation.validation(client).size(), federation.test(client).size(),
          loss_samples(work, loss_batches, samples)}) {
      add_evaluation(trials, client, n, model.evaluation_rows());
    }
  }
  return listed(trials);
}

std::vector<BatchTrial> stream_trials(const Federation& federation, int64_t horizon,
                                      int64_t step_rows) {
  Trials trials;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    for (const bool training : {true, false}) {
      const int64_t samples =
          (training ? federation.train(client) : federation.test(client)).size();
      for (const int64_t rows : {samples / horizon, (samples + horizon - 1) / horizon}) {
        const int64_t step = training && step_rows > 0 ? std::min(step_rows, rows) : rows;
        for (const int64_t size : {step, step > 0 ? rows % step : 0}) {
          add(trials, {.rows = size,
                       .client = client,
                       .training = training,
                       .hint = "a smaller online.horizon makes larger batches"});
        }
      }
    }
  }
  return listed(trials);
}

void try_batch(const BatchTrial& trial, const Federation& federation, Model& model) {
  try {
    pass(trial, federation, model);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw InvalidArgument(
        fmt::format("{}, {}: {}", client_label(federation, trial.client),
                    trial.training ? "training" : "evaluation", first_line(error)),
        "", trial.hint);
  }
}

}  // namespace hanse
