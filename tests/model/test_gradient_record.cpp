// Gradients in factors are the gradients, in their steps and in their inner products.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/model/gradient_record.hpp"
#include "hanse/model/model.hpp"
#include "support.hpp"

namespace hanse {
namespace {

std::unique_ptr<Model> small_model(const std::string& kind) {
  return make_model(small_options(kind, "cross-entropy"), small_shape(kind), 3);
}

const std::vector<std::string> kWithFactors = {"linear",      "mlp",       "cnn-leaf", "cnn-cifar",
                                               "cnn-mcmahan", "cnn-byzfl", "lenet"};

GradientRecord record_of(Model& model, const std::vector<float>& row, const Batch& batch,
                         uint64_t client = 0) {
  GradientRecord record;
  RandomStream noise = noise_stream(client);
  model.record_gradient(row, batch, noise, record);
  return record;
}

TEST(GradientRecord, ModelsThatHaveFactors) {
  std::vector<std::string> found;
  for (const auto& kind : model_kinds()) {
    const auto model = small_model(kind.name);
    if (model->record_product_cost(2) > 0) {
      found.push_back(kind.name);
      continue;
    }
    GradientRecord record;
    RandomStream noise = noise_stream();
    const std::vector<float> row = initial_row(*model);
    EXPECT_THROW(model->record_gradient(row, {}, noise, record), InvalidArgument) << kind.name;
  }
  EXPECT_EQ(found, kWithFactors);
}

// 2 samples: 4 (144 + 7 + 7 + 5 + 5 + 3) of the factors and 15 biases.
TEST(GradientRecord, AProductCostsItsFactorsAndBiases) {
  EXPECT_EQ(small_model("mlp")->record_product_cost(2), 4 * 171 + 15);
}

TEST(GradientRecord, IsTheGradientAndItsStep) {
  for (const std::string& kind : kWithFactors) {
    SCOPED_TRACE(kind);
    const auto model = small_model(kind);
    std::vector<float> row = initial_row(*model);
    GradientRecord record;
    for (const int64_t rows : {7, 1, 4}) {  // one record for all
      const Samples samples(small_shape(kind), 3, rows);
      const LossAndGradient expected = loss_and_gradient(*model, row, samples.batch());
      RandomStream noise = noise_stream();
      EXPECT_EQ(model->record_gradient(row, samples.batch(), noise, record), expected.loss);
      EXPECT_TRUE(record.row().empty());
      std::vector<float> written(row.size(), NAN);
      record.add_to(written, 1, 0);
      EXPECT_EQ(written, expected.gradient);
      std::vector<float> stepped = row;
      RandomStream same = noise_stream();
      model->sgd_step(stepped, samples.batch(), same, 0.125, 0);
      record.add_to(row, -0.125F);
      EXPECT_EQ(row, stepped);
    }
  }
}

// Rows and factors among each other; batches of several sizes.
TEST(GradientRecord, InnerProductsAreThoseOfTheRows) {
  for (const std::string& kind : kWithFactors) {
    SCOPED_TRACE(kind);
    const auto model = small_model(kind);
    std::vector<std::vector<float>> written;
    std::vector<GradientRecord> records;
    for (uint64_t i = 0; i < 7; ++i) {
      const Samples samples(small_shape(kind), 3, 1 + static_cast<int64_t>(i % 4), i);
      const std::vector<float> row = initial_row(*model, i);
      records.push_back(record_of(*model, row, samples.batch(), i));
      records.back().add_to(written.emplace_back(row.size()), 1, 0);
    }
    for (const std::size_t i : {0U, 3U, 4U}) records[i] = GradientRecord(std::span(written[i]));
    std::vector<const GradientRecord*> all;
    for (const GradientRecord& record : records) all.push_back(&record);
    std::vector<double> gram(all.size() * all.size(), NAN);
    GradientRecord::gram(all, gram);
    const auto product = [&](std::size_t i, std::size_t j) {
      double sum = 0;
      for (std::size_t p = 0; p < written[i].size(); ++p) {
        sum += static_cast<double>(written[i][p]) * static_cast<double>(written[j][p]);
      }
      return sum;
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) {
        EXPECT_NEAR(gram[i * all.size() + j], product(i, j),
                    2e-6 * std::sqrt(product(i, i) * product(j, j)))
            << i << ", " << j;
      }
    }
  }
}

TEST(GradientRecord, ARowMayBeWrittenOverItself) {
  std::vector<float> row = {1, -2, 3};
  const GradientRecord record{std::span(row)};
  record.add_to(row, -2, 0);
  EXPECT_EQ(row, (std::vector<float>{-2, 4, -6}));
}

}  // namespace
}  // namespace hanse
