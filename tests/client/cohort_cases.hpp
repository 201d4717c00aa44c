// Clients side by side and one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "client/support.hpp"
#include "client/unequal_federation.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/cohort_training.hpp"
#include "hanse/client/cohort_update.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/part_model.hpp"
#include "support/devices.hpp"
#include "support/thread_communicator.hpp"
#include "support/updates.hpp"

namespace hanse {

using Row = std::vector<float>;

inline constexpr uint64_t kSeed = 5;
inline constexpr int64_t kAllSamples = int64_t{1} << 30;  // of the device's memory

struct Case {
  ModelOptions model;
  std::vector<int64_t> shape = {4};
  int64_t classes = 3;
  ClientOptions client = {{.epochs = 2, .batch = 4}, {.lr = 0.05}};
  int64_t tokens = 0;         // of sequences
  bool starts_blank = false;  // the first tensor at zero, the others in steps of 1/64
  TrainedPart part = {};
  bool squares = false;  // are asked for
};

inline Federation unequal_federation(Communicator& comm, const Case& c) {
  return unequal_federation(comm, c.shape, c.classes, c.tokens, kSeed);
}

struct Trained {
  std::vector<Row> rows;
  std::vector<ClientOutcome> outcomes;
};

// The network that clients train, or a part of it.
struct TrainedModel {
  std::unique_ptr<Model> model;
  const PartModel* part = nullptr;  // `model`, where it is one
};

inline TrainedModel model_of(const Case& c, const Federation& federation) {
  auto network = make_model(c.model, federation.sample_shape(), federation.label_form());
  if (!c.client.objective.empty()) {
    train_for(*network, c.client.objective, federation.label_form());
  } else if (!own_loss_key(c.client).empty()) {
    smooth_labels(*network, c.client.label_smoothing);
  }
  if (!PartModel::is_needed(c.part, network->layout())) return {std::move(network)};
  auto part = std::make_unique<PartModel>(std::move(network), c.part);
  const auto comm = make_single_communicator();
  part->hold(*comm, kSeed);
  const PartModel* const held = part.get();
  return {std::move(part), held};
}

inline Row initial_row(Model& model, const Case& c) {
  Row row(static_cast<std::size_t>(model.n_params()));
  RandomStream stream(kSeed, Purpose::kInitialize);
  model.initialize(row, stream);
  if (!c.starts_blank) return row;
  // With so few bits a convolution's sums are exact, in any order.
  for (float& value : row) value = std::round(value * 64) / 64;
  std::fill_n(row.begin(), model.layout().slots().front().size, 0.0F);
  return row;
}

inline Trained one_by_one(const Case& c, const Federation& federation,
                          const std::vector<int64_t>& clients, int64_t round) {
  const auto [model, part] = model_of(c, federation);
  const auto update = sgd_or_prox(c.client, federation, *model);
  Trained trained;
  for (const int64_t client : clients) {
    Row& row = trained.rows.emplace_back(initial_row(*model, c));
    trained.outcomes.push_back(update->train(
        {.client = client, .round = round, .seed = kSeed, .row = row, .squares = c.squares}));
  }
  return trained;
}

// The largest difference between two entries of the same place.
inline float furthest(const Row& one, const Row& other) {
  float found = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const float difference = std::abs(one[i] - other[i]);
    found = std::isnan(difference) ? INFINITY : std::max(found, difference);
  }
  return found;
}

inline std::vector<ClientTask> tasks_of(const std::vector<int64_t>& clients, int64_t round,
                                        bool squares = false) {
  std::vector<ClientTask> tasks;
  for (const int64_t client : clients) {
    tasks.push_back({.client = client, .round = round, .seed = kSeed, .squares = squares});
  }
  return tasks;
}

inline Trained rows_of(CohortTraining& training, const std::vector<int64_t>& clients,
                       std::vector<ClientOutcome> outcomes) {
  Trained trained{.outcomes = std::move(outcomes)};
  const at::Tensor rows = training.cohort().rows().cpu().contiguous();
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const float* first = rows[static_cast<int64_t>(i)].data_ptr<float>();
    trained.rows.emplace_back(first, first + rows.size(1));
  }
  return trained;
}

inline std::vector<double> losses_of(CohortTraining& training) {
  std::vector<double> losses(static_cast<std::size_t>(training.clients()));
  training.cohort().take_losses(losses);
  return losses;
}

inline Trained train_on_device(CohortTraining& training, const std::vector<int64_t>& clients,
                               int64_t round) {
  auto outcomes = training.train(tasks_of(clients, round));
  training.finish(losses_of(training), outcomes);
  return rows_of(training, clients, std::move(outcomes));
}

inline Trained side_by_side(const Case& c, const Federation& federation,
                            const std::vector<int64_t>& clients, int64_t round,
                            const std::string& device, int64_t places,
                            int64_t sample_bytes = kAllSamples) {
  const auto [model, part] = model_of(c, federation);
  CohortTraining training(c.client, federation, c.model, device, places, sample_bytes,
                          /*starts=*/{}, part);
  Row theta = initial_row(*model, c);
  training.cohort().put_theta(theta);
  const auto update = sgd_or_prox(c.client, federation, *model);
  const auto cohort = update->cohort_update(training, model->layout());
  auto outcomes = cohort->train(tasks_of(clients, round, c.squares), theta);
  cohort->finish(losses_of(training), theta, outcomes);
  return rows_of(training, clients, std::move(outcomes));
}

inline void expect_agreement(const Case& c, const Federation& federation,
                             const std::vector<int64_t>& clients, const std::string& what,
                             const std::vector<std::string>& devices = test_devices(),
                             int64_t sample_bytes = kAllSamples) {
  constexpr int64_t kRound = 2;
  const Trained expected = one_by_one(c, federation, clients, kRound);
  for (const std::string& device : devices) {
    for (const int64_t more : {0, 1}) {
      const Trained got = side_by_side(c, federation, clients, kRound, device,
                                       std::ssize(clients) + more, sample_bytes);
      for (std::size_t i = 0; i < clients.size(); ++i) {
        const std::string who = what + " on " + device + ", client " + std::to_string(clients[i]);
        EXPECT_EQ(got.outcomes[i].samples, expected.outcomes[i].samples) << who;
        EXPECT_NEAR(got.outcomes[i].loss, expected.outcomes[i].loss, 1e-5) << who;
        const double squares = expected.outcomes[i].squares;
        EXPECT_NEAR(got.outcomes[i].squares, squares, 1e-5 * squares) << who;
        EXPECT_LE(furthest(got.rows[i], expected.rows[i]), 1e-5F) << who;
      }
    }
  }
}

inline void expect_agreement(const Case& c, const std::string& what,
                             const std::vector<std::string>& devices = test_devices()) {
  expect_agreement(c, unequal_federation(*make_single_communicator(), c), {3, 0, 6, 5, 1}, what,
                   devices);
}

inline ModelOptions kind(const std::string& name, const std::string& loss = "cross-entropy") {
  ModelOptions options;
  options.kind = name;
  options.loss = loss;
  options.hidden = {7, 5};
  return options;
}

// The model on the device as Model::evaluate() has it in the host's memory, one sample at a time.
inline void expect_evaluation(const Case& c, const std::string& what) {
  const auto comm = make_single_communicator();
  DataOptions data{.kind = "random", .test_fraction = 0.5, .shape = c.shape, .classes = c.classes};
  data.tokens = c.tokens;
  constexpr int64_t kSamples = 2 * CohortTraining::kEvaluationRows + 6;
  const FederationOptions options{.clients = 2, .partition = "iid", .samples = kSamples};
  const Federation federation = Federation::load(data, options, kSeed, *comm);
  const auto [model, part] = model_of(c, federation);
  Row row = initial_row(*model, c);
  RowEvaluator expected(federation, *model);
  expected.at(row);
  const SampleRange ranges[] = {{0, 1}, {3, 10}, federation.train(0), federation.test(1)};
  for (const std::string& device : test_devices()) {
    for (const int64_t sample_bytes : {int64_t{0}, kAllSamples}) {
      CohortTraining training(c.client, federation, c.model, device, 3, sample_bytes,
                              /*starts=*/{}, part);
      training.cohort().theta().copy_(at::from_blob(row.data(), {model->n_params()}, at::kFloat));
      const auto expect_sums = [&](const EvaluationSums& found, const EvaluationSums& sums) {
        EXPECT_EQ(found.samples, sums.samples) << what;
        EXPECT_EQ(found.correct, sums.correct) << what;
        EXPECT_NEAR(found.loss, sums.loss, 1e-6 * static_cast<double>(sums.samples)) << what;
      };
      for (const SampleRange& range : ranges) {
        const bool scored = c.classes == 2;
        std::vector<float> scores(static_cast<std::size_t>(range.size()));
        std::vector<float> expected_scores(scores.size());
        std::vector<int32_t> ranks(scores.size(), -1), expected_ranks(scores.size(), -2);
        std::vector<int32_t> classes(ranks), expected_classes(expected_ranks);
        const int64_t logits = c.classes == 2 ? 0 : std::max<int64_t>(1, c.classes);
        std::vector<float> outputs(to_index(range.size() * logits)), expected_outputs(outputs);
        const auto results = [&](auto& own_scores, auto& own_ranks, auto& own_classes,
                                 auto& own_outputs) {
          return SampleResults{.scores = scored ? own_scores.data() : nullptr,
                               .ranks = c.classes > 0 ? own_ranks.data() : nullptr,
                               .classes = c.classes > 0 ? own_classes.data() : nullptr,
                               .outputs = logits > 0 ? own_outputs.data() : nullptr,
                               .logits = logits};
        };
        expect_sums(training.range(range, results(scores, ranks, classes, outputs)),
                    expected.range(range, results(expected_scores, expected_ranks, expected_classes,
                                                  expected_outputs)));
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          EXPECT_NEAR(outputs[i], expected_outputs[i], 1e-4) << what;
        }
        if (c.classes > 0) {
          EXPECT_EQ(ranks, expected_ranks) << what;
          EXPECT_EQ(classes, expected_classes) << what;
        }
        for (std::size_t i = 0; i < scores.size(); ++i) {
          EXPECT_NEAR(scores[i], expected_scores[i], 1e-5) << what;
        }
      }
      const std::vector<int32_t> order{7, 2, 0, 11, 2};
      expect_sums(training.chosen(5, order), expected.chosen(5, order));
    }
  }
}

}  // namespace hanse
