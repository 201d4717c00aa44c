// Adapters with a scale, with one factor frozen, with dropout; and a base that moves.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/part_model.hpp"
#include "model/part_step.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

std::unique_ptr<Model> whole_model(const std::string& kind = "mlp") {
  return make_model(small_options(kind, "cross-entropy"), small_shape(kind), 3);
}

std::unique_ptr<PartModel> part_of(const TrainedPart& part, const std::string& kind = "mlp") {
  auto model = std::make_unique<PartModel>(whole_model(kind), part);
  model->hold(*make_single_communicator(), 1);
  return model;
}

TrainedPart rank_2(std::vector<std::string> train = {}) {
  return {.train = std::move(train), .rank = 2, .layers = {"fc[12].weight"}};
}

std::vector<float> moved(const PartModel& model, uint64_t seed = 9) {
  std::vector<float> row = initial_row(model);
  RandomStream stream(seed, Purpose::kData);
  for (float& value : row) value += static_cast<float>(0.3 * stream.normal());
  return row;
}

const ParameterSlot* slot_of(const ParameterLayout& layout, const std::string& name) {
  const auto slot = std::ranges::find(layout.slots(), name, &ParameterSlot::name);
  return slot == layout.slots().end() ? nullptr : &*slot;
}

std::vector<float> values(std::span<const float> row, const ParameterSlot& slot) {
  return {row.begin() + slot.offset, row.begin() + slot.offset + slot.size};
}

// s B A of an adapter, in float64.
std::vector<double> product(const NamedAdapter& adapter, double scale) {
  const auto out = adapter.matrix.shape[0], in = adapter.matrix.shape[1];
  const int64_t rank = std::ssize(adapter.a) / in;
  std::vector<double> result(static_cast<std::size_t>(out * in), 0.0);
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t r = 0; r < rank; ++r) {
        result[static_cast<std::size_t>(o * in + i)] +=
            scale * static_cast<double>(adapter.b[static_cast<std::size_t>(o * rank + r)]) *
            static_cast<double>(adapter.a[static_cast<std::size_t>(r * in + i)]);
      }
    }
  }
  return result;
}

// The model at scale s is the one at scale 1 whose B is s times as large, and so are the gradients,
// but for that by B, which is s times as large.
TEST(Adapters, AScaleIsAFactorOfB) {
  const Samples samples(small_shape("mlp"), 3, 9, 3);
  for (const float scale : {0.5F, 4.0F}) {
    TrainedPart part = rank_2();
    part.scale = scale;
    const auto scaled = part_of(part), plain = part_of(rank_2());
    const auto row = moved(*scaled);
    auto other = row;
    for (const ParameterSlot& slot : plain->layout().slots()) {
      if (!slot.name.ends_with("lora_B")) continue;
      for (int64_t i = 0; i < slot.size; ++i)
        other[static_cast<std::size_t>(slot.offset + i)] *= scale;
    }
    const auto found = loss_and_gradient(*scaled, row, samples.batch());
    auto expected = loss_and_gradient(*plain, other, samples.batch());
    EXPECT_EQ(found.loss, expected.loss);  // powers of two
    for (const ParameterSlot& slot : plain->layout().slots()) {
      if (!slot.name.ends_with("lora_B")) continue;
      for (int64_t i = 0; i < slot.size; ++i) {
        expected.gradient[static_cast<std::size_t>(slot.offset + i)] *= scale;
      }
    }
    EXPECT_EQ(found.gradient, expected.gradient);
    EXPECT_EQ(scaled->whole(row, true).row, plain->whole(other, true).row);
  }
}

// What is frozen is the start of the run whose factors both move.
TEST(Adapters, AFrozenFactorStaysAsItStarts) {
  const auto all = part_of(rank_2()), half = part_of(rank_2({"*.lora_B"}));
  EXPECT_EQ(half->layout().slots().size(), 2U);
  EXPECT_EQ(slot_of(half->layout(), "fc1.weight.lora_A"), nullptr);
  const auto start = initial_row(*all);
  EXPECT_EQ(all->whole(start, false).row, half->whole(initial_row(*half), false).row);
  EXPECT_TRUE(slot_of(half->all_tensors(), "fc1.weight.lora_A")->frozen);
  // Gradients are those of the run that moves both, where they are.
  const Samples samples(small_shape("mlp"), 3, 9, 3);
  const auto found = loss_and_gradient(*half, initial_row(*half), samples.batch());
  const auto expected = loss_and_gradient(*all, start, samples.batch());
  EXPECT_EQ(found.loss, expected.loss);
  for (const ParameterSlot& slot : half->layout().slots()) {
    EXPECT_EQ(values(found.gradient, slot),
              values(expected.gradient, *slot_of(all->layout(), slot.name)));
  }
}

// Where A alone moves it starts from 0, and B at random: the run starts from W_0.
TEST(Adapters, TheFactorThatMovesAloneStartsFromZero) {
  const auto half = part_of(rank_2({"*.lora_A"}));
  const auto row = initial_row(*half);
  EXPECT_EQ(std::ranges::count(row, 0.0F), std::ssize(row));
  const auto adapters = half->adapters().of_row(row, half->network().layout());
  ASSERT_EQ(adapters.size(), 2U);
  const auto [least, most] = std::ranges::minmax(adapters[0].b);
  const double bound = 1 / std::sqrt(static_cast<double>(adapters[0].matrix.shape[0]));
  EXPECT_LE(static_cast<double>(most), bound);
  EXPECT_LT(least, 0);
  EXPECT_EQ(half->whole(row, true).row, initial_row(*whole_model()));
}

TEST(Adapters, PatternsOfFactorsGoWithThoseOfTensors) {
  const auto model = part_of(rank_2({"fc3.bias", "fc1*lora_B", "fc2*lora_?"}));
  std::vector<std::string> names;
  for (const ParameterSlot& slot : model->layout().slots()) names.push_back(slot.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight.lora_B", "fc2.weight.lora_A",
                                             "fc2.weight.lora_B", "fc3.bias"}));
  expect_error<InvalidArgument>([] { part_of(rank_2({"fc1*lora_B"})); },
                                {"neither fc2.weight.lora_A nor", "client.lora-layers"});
  expect_error<InvalidArgument>([] { part_of(rank_2({"*.lora_C"})); },
                                {"'*.lora_C'", "fc1.weight.lora_A, fc1.weight.lora_B"});
}

// A mask makes a function like any other: its gradient agrees with differences of the loss with
// the same noise.
TEST(Adapters, DropoutsGradientsAgreeWithDifferences) {
  for (const char* kind : {"linear", "lstm"}) {  // without a ReLU, which may turn
    SCOPED_TRACE(kind);
    TrainedPart part{.rank = 2, .layers = {"*"}, .scale = 2, .dropout = 0.4};
    const auto model = part_of(part, kind);
    const auto plain = part_of({.rank = 2, .layers = {"*"}, .scale = 2}, kind);
    auto row = moved(*model);
    const Samples samples(small_shape(kind), 3, 7, 3, reads_tokens(kind) ? 11 : 0);
    const auto loss_at = [&](const std::vector<float>& at, const PartModel& of) {
      RandomStream noise = noise_stream();
      std::vector<float> gradient(at.size());
      return const_cast<PartModel&>(of).loss_and_gradient(at, samples.batch(), noise, gradient);
    };
    EXPECT_NE(loss_at(row, *model), loss_at(row, *plain));
    EXPECT_EQ(model->evaluate(row, samples.batch()).loss,
              plain->evaluate(row, samples.batch()).loss);
    const auto found = loss_and_gradient(*model, row, samples.batch());
    for (const ParameterSlot& slot : model->layout().slots()) {
      for (int64_t i = 0; i < slot.size; i += 1 + slot.size / 7) {
        const auto place = static_cast<std::size_t>(slot.offset + i);
        const float value = row[place];
        row[place] = value + 1e-3F;
        const double above = loss_at(row, *model);
        row[place] = value - 1e-3F;
        const double below = loss_at(row, *model);
        row[place] = value;
        EXPECT_NEAR((above - below) / 2e-3, static_cast<double>(found.gradient[place]), 3e-3)
            << slot.name << " " << i;
      }
    }
  }
}

// The inputs of a matrix that is stored the other way round are the rows of B. A table of tokens
// has none.
TEST(Adapters, DropoutsInputsAreThoseOfTheLayer) {
  PartAdapter place;
  static_cast<AdapterPlace&>(place) = {0, 40, 5, 2, 1};
  const std::vector<float> a(10, 1.0F), b(80, 1.0F);
  const auto dropped = [&](MatrixUse use, AdapterDropout& dropout) {
    place.use = use;
    RandomStream noise = noise_stream();
    return dropout.drop(place, {a.data(), b.data()}, 0.5, noise);
  };
  AdapterDropout none;
  const AdapterFactors same = dropped(MatrixUse::kEmbedding, none);
  EXPECT_EQ(same.a, a.data());
  EXPECT_EQ(same.b, b.data());
  AdapterDropout rows;
  const AdapterFactors found = dropped(MatrixUse::kTransposed, rows);
  EXPECT_EQ(found.a, a.data());
  std::vector<float> da(10, 1.0F), db(80, 1.0F);
  rows.mask(place, da.data(), db.data());
  EXPECT_EQ(da, a);
  EXPECT_TRUE(std::equal(db.begin(), db.end(), found.b));
  int64_t left = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(db[2 * i], db[2 * i + 1]);
    EXPECT_TRUE(db[2 * i] == 0 || db[2 * i] == 2);
    left += db[2 * i] != 0 ? 1 : 0;
  }
  EXPECT_GT(left, 5);
  EXPECT_LT(left, 35);
}

// W_0 + s B A of one row, as it merges; and of several the sum in float64, on any ranks.
TEST(Adapters, AMergeIsTheSumOfTheProducts) {
  TrainedPart part = rank_2();
  part.scale = 0.5;
  part.moves_base = true;
  const auto alone = part_of(part);
  const std::vector<std::vector<float>> rows = {moved(*alone, 1), moved(*alone, 2),
                                                moved(*alone, 3)};
  const std::vector<WeighedRow> weighed = {
      {0.2, rows[0].data()}, {0.5, rows[1].data()}, {0.3, rows[2].data()}};
  const auto before = alone->adapters().base();
  std::vector<double> expected(before.begin(), before.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t at = 0;
    for (const NamedAdapter& adapter :
         alone->adapters().of_row(rows[i], alone->network().layout())) {
      for (const double one : product(adapter, 0.5)) {
        expected[at++] += weighed[i].coefficient * one;
      }
    }
  }
  const auto host = make_single_communicator();
  alone->adapters().merge(*host, weighed);
  const auto after = alone->adapters().base();
  double largest = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(after[i]) - expected[i]));
  }
  EXPECT_LT(largest, 1e-7);
  for (const int ranks : {2, 3}) {
    run_threads(ranks, [&](Communicator& comm) {
      PartModel model(whole_model(), part);
      model.hold(comm, 1);
      model.adapters().merge(comm, weighed);
      EXPECT_EQ(model.adapters().base(), after);
      // Every rank trains on it from then on.
      std::vector<float> fresh(rows[0].size());
      model.adapters().refresh(2, fresh);
      const Samples samples(small_shape("mlp"), 3, 4, 3);
      std::vector<float> same(rows[0].size());
      alone->adapters().refresh(2, same);
      EXPECT_EQ(fresh, same);
      comm.barrier();
      if (comm.rank() == 0) {
        EXPECT_EQ(model.evaluate(fresh, samples.batch()).loss,
                  alone->evaluate(same, samples.batch()).loss);
      }
      comm.barrier();
      model.adapters().set_base(comm, comm.rank() == 0 ? before : std::vector<float>());
      EXPECT_EQ(model.adapters().base(), before);
    });
  }
}

// One row, c = 1: what merges is what the matrix was with the adapter.
TEST(Adapters, AMergeOfOneIsItsMatrix) {
  TrainedPart part = rank_2();
  part.moves_base = true;
  const auto model = part_of(part);
  const auto row = moved(*model);
  const NamedRow expected = model->whole(row, true);
  model->adapters().merge(*make_single_communicator(), std::vector<WeighedRow>{{1, row.data()}});
  std::vector<float> fresh(row.size());
  model->adapters().refresh(2, fresh);
  const NamedRow found = model->whole(fresh, true);
  for (std::size_t i = 0; i < found.row.size(); ++i) {
    EXPECT_NEAR(found.row[i], expected.row[i], 2e-7 * (1 + std::abs(expected.row[i])));
  }
  EXPECT_NE(model->adapters().base(), part_of(part)->adapters().base());
}

TEST(Adapters, FreshFactorsDifferByRound) {
  const auto model = part_of(rank_2());
  std::vector<float> first(initial_row(*model).size()), second(first.size());
  std::ranges::fill(first, 7.0F);  // what the round before has left
  model->adapters().refresh(1, first);
  model->adapters().refresh(2, second);
  EXPECT_EQ(first, initial_row(*model));
  EXPECT_NE(first, second);
}

// The gap against products written out; 0 where one factor is the same for all.
TEST(Adapters, TheGapOfProducts) {
  const auto model = part_of(rank_2());
  const std::vector<std::vector<float>> rows = {moved(*model, 1), moved(*model, 2),
                                                moved(*model, 3)};
  const std::vector<double> weights = {0.2, 0.7, 0.6};  // they need not add up to 1
  std::vector<WeighedRow> weighed;
  std::vector<float> mean(rows[0].size(), 0.0F);
  std::vector<double> products;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    weighed.push_back({weights[i], rows[i].data()});
    std::size_t at = 0;
    for (const NamedAdapter& adapter :
         model->adapters().of_row(rows[i], model->network().layout())) {
      for (const double one : product(adapter, 1)) {
        if (products.size() <= at) products.push_back(0);
        products[at++] += weights[i] / 1.5 * one;
      }
    }
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] += static_cast<float>(weights[i] / 1.5) * rows[i][k];
    }
  }
  double gap = 0, norm = 0;
  std::size_t at = 0;
  for (const NamedAdapter& adapter : model->adapters().of_row(mean, model->network().layout())) {
    for (const double one : product(adapter, 1)) {
      gap += (products[at] - one) * (products[at] - one);
      norm += products[at] * products[at];
      ++at;
    }
  }
  EXPECT_NEAR(model->adapters().product_gap(weighed), std::sqrt(gap / norm), 1e-6);
  EXPECT_GT(std::sqrt(gap / norm), 0.1);
  EXPECT_NEAR(model->adapters().product_gap(std::span(weighed).first(1)), 0, 1e-7);
  EXPECT_TRUE(std::isnan(
      model->adapters().product_gap(std::vector<WeighedRow>{{1, initial_row(*model).data()}})));
  const auto half = part_of(rank_2({"*.lora_B"}));
  const std::vector<std::vector<float>> halves = {moved(*half, 1), moved(*half, 2)};
  const std::vector<WeighedRow> both = {{0.3, halves[0].data()}, {0.7, halves[1].data()}};
  EXPECT_LT(half->adapters().product_gap(both), 1e-7);
}

}  // namespace
}  // namespace hanse
