// DQN-Fed's client whose gradients stay in factors, against one that keeps rows.
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/model/model.hpp"

namespace hanse {
namespace {

// A network that offers factors or does not, and counts what is asked of it.
class Watched final : public Model {
 public:
  Watched(std::unique_ptr<Model> inner, bool offers) : inner_(std::move(inner)), offers_(offers) {
    layout_ = inner_->layout();
  }

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override {
    ++rows;
    return inner_->loss_and_gradient(row, batch, noise, gradient);
  }
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override {
    ++steps;
    return inner_->sgd_step(row, batch, noise, lr, weight_decay);
  }
  double record_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                         GradientRecord& record) override {
    ++records;
    return inner_->record_gradient(row, batch, noise, record);
  }
  int64_t record_product_cost(int64_t samples) const override {
    return offers_ ? inner_->record_product_cost(samples) : 0;
  }
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results) override {
    return inner_->evaluate(row, batch, results);
  }

  int64_t rows = 0, steps = 0, records = 0;

 private:
  std::unique_ptr<Model> inner_;
  bool offers_;
};

// Clients of samples with 12 features, and a network of 225 parameters.
struct Problem {
  Problem() : comm(make_single_communicator()), federation(make_federation(*comm, clients())) {}

  static std::vector<Samples> clients() {
    RandomStream random(3, Purpose::kData);
    std::vector<Samples> all(2);
    for (Samples& samples : all) {
      for (int i = 0; i < 9; ++i) {
        std::vector<float> x(12);
        for (float& value : x) value = static_cast<float>(random.normal());
        samples.x.push_back(x);
        samples.y.push_back(static_cast<float>(random.normal()));
      }
    }
    return all;
  }

  std::unique_ptr<Watched> model(bool offers) const {
    return std::make_unique<Watched>(
        make_model({.kind = "mlp", .loss = "squared-error", .hidden = {16}},
                   federation.sample_shape(), 0),
        offers);
  }

  std::unique_ptr<Communicator> comm;
  Federation federation;
};

ClientOptions options_of(int64_t batch, int64_t steps, int64_t pairs) {
  ClientOptions options;
  options.batch = batch;
  options.steps = steps;
  options.pairs = pairs;
  options.lr = 0.05;
  options.rate_limit = 0;
  options.gradient = SentGradient::kLast;
  return options;
}

// Rounds of both clients by turns, each from its own model.
struct Rounds {
  Rounds(const Problem& problem, const ClientOptions& options, bool offers)
      : model(problem.model(offers)) {
    const auto update = make_quasi_newton(options, problem.federation, *model);
    std::vector<Row> states(2, Row(static_cast<std::size_t>(update->state_width())));
    for (int64_t round = 1; round <= 3; ++round) {
      for (const std::size_t client : {0U, 1U}) {
        RandomStream random(5, Purpose::kInitialize, static_cast<uint64_t>(round), client);
        Row row(static_cast<std::size_t>(model->n_params()));
        model->initialize(row, random);
        rates.push_back(update
                            ->train({.client = static_cast<int64_t>(client),
                                     .round = round,
                                     .seed = 9,
                                     .row = row,
                                     .state = states[client]})
                            .rate);
        told.push_back(row);
      }
    }
  }

  std::unique_ptr<Watched> model;
  std::vector<double> rates;
  std::vector<Row> told;
};

TEST(RoundPairs, FactorsTellWhatRowsTell) {
  const Problem problem;
  for (const int64_t batch : {1, 2}) {
    for (const int64_t steps : {2, 3, 6}) {
      for (const int64_t pairs : {1, 2, 3}) {
        if (pairs > steps) continue;
        SCOPED_TRACE(::testing::Message()
                     << "batch " << batch << ", steps " << steps << ", pairs " << pairs);
        const Rounds factors(problem, options_of(batch, steps, pairs), true);
        const Rounds rows(problem, options_of(batch, steps, pairs), false);
        EXPECT_EQ(factors.model->rows, 0);
        EXPECT_EQ(factors.model->records, rows.model->rows);
        for (std::size_t i = 0; i < rows.rates.size(); ++i) {
          EXPECT_NEAR(factors.rates[i], rows.rates[i], 1e-4 * rows.rates[i]) << i;
          double square = 0, error = 0;
          for (std::size_t p = 0; p < rows.told[i].size(); ++p) {
            square += std::pow(rows.told[i][p], 2);
            error += std::pow(rows.told[i][p] - factors.told[i][p], 2);
          }
          EXPECT_LT(error, 1e-10 * square) << i;
        }
      }
    }
  }
}

// Six steps and 2 pairs: three gradients that somebody needs, two at the iterates before.
TEST(RoundPairs, StepsThatNoPairNeedsAreFused) {
  const Problem problem;
  for (const bool offers : {true, false}) {
    const Rounds run(problem, options_of(2, 6, 2), offers);
    EXPECT_EQ(run.model->steps, 6 * 3);
    EXPECT_EQ(run.model->rows + run.model->records, 6 * (3 + 2));
  }
}

// Large batches and what is added to a gradient want rows.
TEST(RoundPairs, RowsWhereFactorsDoNotPay) {
  const Problem problem;
  ClientOptions decayed = options_of(2, 3, 2);
  decayed.weight_decay = 0.1;
  ClientOptions update = options_of(2, 3, 2);
  update.gradient = SentGradient::kUpdate;
  for (const ClientOptions& options : {options_of(3, 3, 2), options_of(0, 3, 2), decayed, update}) {
    EXPECT_EQ(Rounds(problem, options, true).model->records, 0);
  }
}

}  // namespace
}  // namespace hanse
