// Models of which a part is trained, against the whole model and its gradient.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/part_model.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

std::unique_ptr<Model> whole_model(const std::string& kind) {
  return make_model(small_options(kind, "cross-entropy"), small_shape(kind), 3);
}

std::unique_ptr<PartModel> part_of(const std::string& kind, const TrainedPart& part) {
  auto model = std::make_unique<PartModel>(whole_model(kind), part);
  const auto alone = make_single_communicator();
  model->hold(*alone, 1);
  return model;
}

Samples samples_for(const std::string& kind, int64_t rows) {
  return Samples(small_shape(kind), 3, rows, 3, reads_tokens(kind) ? 11 : 0);
}

// Values that differ, so that no factor is zero.
std::vector<float> moved_row(const Model& model) {
  std::vector<float> row = initial_row(model);
  RandomStream stream(9, Purpose::kData);
  for (float& value : row) value += static_cast<float>(0.1 * stream.normal());
  return row;
}

const ParameterSlot& slot_of(const ParameterLayout& layout, const std::string& name) {
  const auto slot = std::ranges::find(layout.slots(), name, &ParameterSlot::name);
  if (slot == layout.slots().end()) throw Error("no tensor " + name);
  return *slot;
}

double at(std::span<const float> row, const ParameterSlot& slot, int64_t i) {
  return static_cast<double>(row[static_cast<std::size_t>(slot.offset + i)]);
}

// The whole row of a trained one, value by value, and with `gradient` of the whole model that of
// the trained row: the slow reference.
struct Reference {
  Reference(const PartModel& part, const Model& whole, std::span<const float> row)
      : all(initial_row(whole)), layout(whole.layout()), own(part.layout()), trained(row) {
    for (const ParameterSlot& slot : layout.slots()) {
      if (!has(slot.name + ".lora_A")) {
        for (int64_t i = 0; has(slot.name) && i < slot.size; ++i)
          set(slot, i, at(row, mine(slot), i));
        continue;
      }
      const int64_t out = slot.shape[0], in = slot.shape[1];
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < in; ++i) {
          double value = at(all, slot, o * in + i);
          for (int64_t r = 0; r < rank(slot); ++r) value += b(slot, o, r) * a(slot, r, i);
          set(slot, o * in + i, value);
        }
      }
    }
  }

  std::vector<float> gradient_of(std::span<const float> by_all) const {
    std::vector<float> found(static_cast<std::size_t>(own.n_params()), 0.0F);
    for (const ParameterSlot& slot : layout.slots()) {
      if (has(slot.name) && slot.trainable) {
        for (int64_t i = 0; i < slot.size; ++i) add(found, mine(slot), i, at(by_all, slot, i));
      }
      if (!has(slot.name + ".lora_A")) continue;
      const int64_t out = slot.shape[0], in = slot.shape[1];
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < in; ++i) {
          const double g = at(by_all, slot, o * in + i);
          for (int64_t r = 0; r < rank(slot); ++r) {
            add(found, factor(slot, "A"), r * in + i, b(slot, o, r) * g);
            add(found, factor(slot, "B"), o * rank(slot) + r, a(slot, r, i) * g);
          }
        }
      }
    }
    return found;
  }

  bool has(const std::string& name) const {
    return std::ranges::count(own.slots(), name, &ParameterSlot::name) > 0;
  }
  const ParameterSlot& mine(const ParameterSlot& slot) const { return slot_of(own, slot.name); }
  const ParameterSlot& factor(const ParameterSlot& slot, const std::string& which) const {
    return slot_of(own, slot.name + ".lora_" + which);
  }
  int64_t rank(const ParameterSlot& slot) const { return factor(slot, "A").shape[0]; }
  double a(const ParameterSlot& slot, int64_t r, int64_t i) const {
    return at(trained, factor(slot, "A"), r * slot.shape[1] + i);
  }
  double b(const ParameterSlot& slot, int64_t o, int64_t r) const {
    return at(trained, factor(slot, "B"), o * rank(slot) + r);
  }
  void set(const ParameterSlot& slot, int64_t i, double value) {
    all[static_cast<std::size_t>(slot.offset + i)] = static_cast<float>(value);
  }
  static void add(std::vector<float>& row, const ParameterSlot& slot, int64_t i, double value) {
    row[static_cast<std::size_t>(slot.offset + i)] += static_cast<float>(value);
  }

  std::vector<float> all;  // as the whole model has it
  ParameterLayout layout, own;
  std::span<const float> trained;
};

struct PartCase {
  std::string kind;
  TrainedPart part;
};

const std::vector<PartCase>& part_cases() {
  static const std::vector<PartCase> cases = {
      {"linear", {.train = {"*.bias"}}},
      {"linear", {.rank = 3, .layers = {"*"}}},
      {"mlp", {.train = {"fc2.*", "*1.bias"}}},
      {"mlp", {.rank = 2, .layers = {"*"}}},
      {"mlp", {.train = {"fc3.*", "fc1.bias"}, .rank = 1, .layers = {"fc[12].weight"}}},
      {"lenet", {.train = {"conv2.*"}}},
      {"lenet", {.train = {"conv*"}, .rank = 3, .layers = {"*"}}},
      {"resnet18", {.train = {"*bn*"}}},
      {"resnet18", {.train = {"layer3.*"}, .rank = 2, .layers = {"fc.weight"}}},
      {"lstm", {.train = {"embedding.*"}, .rank = 2, .layers = {"*"}}},
      {"lstm", {.rank = 3, .layers = {"*"}}},
      {"transformer", {.train = {"*norm*", "fc.*"}}},
      {"transformer", {.rank = 3, .layers = {"*"}}},
      {"graph", {.train = {"bias"}}},
      {"graph", {.rank = 1, .layers = {"weight"}}}};
  return cases;
}

std::string named(const PartCase& c) {
  return c.kind + " " + (c.part.train.empty() ? "" : c.part.train.front()) + " " +
         std::to_string(c.part.rank);
}

TEST(PartModel, GradientsAreThoseOfTheWholeModel) {
  for (const PartCase& c : part_cases()) {
    SCOPED_TRACE(named(c));
    const auto model = part_of(c.kind, c.part);
    const auto whole = whole_model(c.kind);
    const auto row = moved_row(*model);
    const Reference reference(*model, *whole, row);
    for (const int64_t rows : {1, 5, 130}) {
      const Samples samples = samples_for(c.kind, rows);
      const auto found = loss_and_gradient(*model, row, samples.batch());
      const auto expected = loss_and_gradient(*whole, reference.all, samples.batch());
      EXPECT_NEAR(found.loss, expected.loss, 1e-5 * (1 + expected.loss));
      expect_close(model->layout(), found.gradient, reference.gradient_of(expected.gradient), 2e-4);
      EXPECT_NEAR(model->evaluate(row, samples.batch()).loss,
                  whole->evaluate(reference.all, samples.batch()).loss,
                  1e-4 * static_cast<double>(rows));
    }
  }
}

TEST(PartModel, GradientsAgreeWithDifferences) {
  const auto model = part_of("mlp", {.train = {"fc3.*"}, .rank = 2, .layers = {"*"}});
  auto row = moved_row(*model);
  const Samples samples = samples_for("mlp", 7);
  const auto found = loss_and_gradient(*model, row, samples.batch());
  for (const ParameterSlot& slot : model->layout().slots()) {
    for (int64_t i = 0; i < slot.size; i += 1 + slot.size / 5) {
      const auto place = static_cast<std::size_t>(slot.offset + i);
      const float value = row[place];
      const auto loss_at = [&](float step) {
        row[place] = value + step;
        return model->evaluate(row, samples.batch()).loss / 7;
      };
      // So short that hardly a ReLU turns between the two.
      const double slope = (loss_at(1e-3F) - loss_at(-1e-3F)) / 2e-3;
      row[place] = value;
      EXPECT_NEAR(slope, static_cast<double>(found.gradient[place]), 2e-3) << slot.name << " " << i;
    }
  }
}

// Notes what it gets, and moves nothing.
class Record final : public RowStep {
 public:
  explicit Record(std::size_t size) : gradient(size, NAN), times(size, 0) {}
  void apply(int64_t offset, const float* values, int64_t size) override {
    std::copy_n(values, size, gradient.begin() + offset);
    for (int64_t i = offset; i < offset + size; ++i) ++times[static_cast<std::size_t>(i)];
  }
  std::vector<float> gradient;
  std::vector<int> times;
};

TEST(PartModel, StepsAreGradients) {
  for (const PartCase& c : part_cases()) {
    SCOPED_TRACE(named(c));
    const auto model = part_of(c.kind, c.part);
    const Samples samples = samples_for(c.kind, 9);
    expect_step_is_update(*model, samples.batch(), 0.25);
    expect_gradient_in_place(*model, samples.batch());
    auto row = moved_row(*model);
    const auto expected = loss_and_gradient(*model, row, samples.batch());
    Record step(row.size());
    RandomStream noise = noise_stream();
    EXPECT_EQ(model->step_by(row, samples.batch(), noise, step), expected.loss);
    EXPECT_EQ(step.gradient, expected.gradient);
    EXPECT_EQ(step.times, std::vector<int>(row.size(), 1));
  }
}

// What is trained starts as in the whole model; adapters change nothing at first.
TEST(PartModel, StartsAsTheWholeModel) {
  for (const PartCase& c : part_cases()) {
    SCOPED_TRACE(named(c));
    const auto model = part_of(c.kind, c.part);
    const auto whole = whole_model(c.kind);
    const auto row = initial_row(*model), all = initial_row(*whole);
    EXPECT_EQ(model->whole(row, true).row, all);
    const Samples samples = samples_for(c.kind, 4);
    EXPECT_EQ(model->evaluate(row, samples.batch()).loss,
              whole->evaluate(all, samples.batch()).loss);
    for (const ParameterSlot& slot : model->layout().slots()) {
      const bool is_a = slot.name.ends_with(".lora_A"), is_b = slot.name.ends_with(".lora_B");
      double largest = 0;
      for (int64_t i = 0; i < slot.size; ++i)
        largest = std::max(largest, std::abs(at(row, slot, i)));
      if (is_b) {
        EXPECT_EQ(largest, 0) << slot.name;
      } else if (is_a) {
        const double bound = 1 / std::sqrt(static_cast<double>(slot.shape[1]));
        EXPECT_LE(largest, bound) << slot.name;
        EXPECT_GT(largest, bound / 4) << slot.name;
        EXPECT_NE(at(row, slot, 0), at(all, whole->layout().slots()[0], 0)) << slot.name;
      }
    }
  }
}

TEST(PartModel, NamesAllTensors) {
  const auto model = part_of("mlp", {.train = {"fc3.*"}, .rank = 2, .layers = {"fc1.*"}});
  const auto row = moved_row(*model);
  const NamedRow apart = model->whole(row, false), merged = model->whole(row, true);
  EXPECT_EQ(apart.layout.n_frozen(), 144 * 7 + 7 + 7 * 5 + 5);
  EXPECT_EQ(merged.layout.n_frozen(), 7 + 7 * 5 + 5);
  EXPECT_EQ(apart.layout.slots().size(), 8U);
  EXPECT_EQ(merged.layout.slots().size(), 6U);
  EXPECT_EQ(std::ssize(apart.row), apart.layout.n_params());
  const auto whole = whole_model("mlp");
  const Reference reference(*model, *whole, row);
  for (std::size_t i = 0; i < reference.all.size(); ++i) {
    EXPECT_NEAR(merged.row[i], reference.all[i], 1e-6);
  }
  for (const std::string name : {"fc1.weight.lora_A", "fc1.weight.lora_B", "fc3.weight"}) {
    const auto &there = slot_of(apart.layout, name), &here = slot_of(model->layout(), name);
    EXPECT_EQ(there.shape, here.shape);
    for (int64_t i = 0; i < here.size; ++i) EXPECT_EQ(at(apart.row, there, i), at(row, here, i));
  }
}

// The adapters of a file.
TEST(PartModel, StartsFromParts) {
  PartModel model(whole_model("mlp"), {.rank = 2, .layers = {"fc[23].*"}});
  const ParameterSlot& b = slot_of(model.all_tensors(), "fc3.weight.lora_B");
  const ParameterSlot& bias = slot_of(model.all_tensors(), "fc1.bias");
  const std::vector<float> factor = {1, 2, 3, 4, 5, 6}, values = {7, 6, 5, 4, 3, 2, 1};
  model.start_whole_from({{b.offset, factor}, {bias.offset, values}});
  model.hold(*make_single_communicator(), 1);
  const auto row = initial_row(model);
  const NamedRow all = model.whole(row, false);
  EXPECT_TRUE(std::equal(factor.begin(), factor.end(), all.row.begin() + b.offset));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), all.row.begin() + bias.offset));
  EXPECT_TRUE(std::equal(factor.begin(), factor.end(),
                         row.begin() + slot_of(model.layout(), "fc3.weight.lora_B").offset));
}

// Ranks of a host start from one row, and each moves a row of its own.
TEST(PartModel, RanksDoNotDisturbEachOther) {
  std::vector<std::string> digests(3);
  std::vector<double> losses(3), expected(3);
  const auto moved = [](const Model& model, int rank) {
    auto row = initial_row(model);
    for (float& value : row) value += 0.1F * static_cast<float>(rank);
    return row;
  };
  const Samples samples = samples_for("mlp", 6);
  run_threads(3, [&](Communicator& comm) {
    PartModel model(whole_model("mlp"), {.train = {"fc2.*"}, .rank = 1, .layers = {"fc1.*"}});
    model.hold(comm, 1);
    const auto rank = static_cast<std::size_t>(comm.rank());
    const auto row = moved(model, comm.rank());
    for (int times = 0; times < 20; ++times) {
      comm.barrier();
      losses[rank] = model.evaluate(row, samples.batch()).loss;
    }
    digests[rank] = model.start_digest();
  });
  const auto alone = part_of("mlp", {.train = {"fc2.*"}, .rank = 1, .layers = {"fc1.*"}});
  for (int rank = 0; rank < 3; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    EXPECT_EQ(losses[i], alone->evaluate(moved(*alone, rank), samples.batch()).loss);
    EXPECT_EQ(digests[i], alone->start_digest());
  }
}

TEST(PartModel, HessiansOfTheTrainedPart) {
  EXPECT_FALSE(part_of("mlp", {.rank = 1, .layers = {"*"}})->has_hessian());
  const auto model = part_of("mlp", {.train = {"fc2.*"}});
  ASSERT_TRUE(model->has_hessian());
  const auto row = moved_row(*model);
  const Samples samples = samples_for("mlp", 6);
  std::vector<float> v(row.size()), found(row.size());
  std::iota(v.begin(), v.end(), 1.0F);
  model->hessian_vector(row, samples.batch(), v, found);
  const auto whole = whole_model("mlp");
  const Reference reference(*model, *whole, row);
  std::vector<float> direction(reference.all.size()), product(reference.all.size());
  const auto first = slot_of(whole->layout(), "fc2.weight").offset;
  std::copy(v.begin(), v.end(), direction.begin() + first);
  whole->hessian_vector(reference.all, samples.batch(), direction, product);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), product.begin() + first));
}

TEST(PartModel, BuffersGoWithThePart) {
  auto options = small_options("graph", "cross-entropy");
  options.path = written(norm_graph());
  PartModel model(make_model(options, {4}, 3), {.train = {"bias"}});
  model.hold(*make_single_communicator(), 1);
  EXPECT_EQ(model.layout().n_trainable(), 3);
  EXPECT_EQ(model.n_params(), 3 + 8);
  const auto whole = make_model(options, {4}, 3);
  const Samples samples({4}, 3, 6);
  auto row = initial_row(model), all = initial_row(*whole);
  RandomStream noise = noise_stream();
  model.sgd_step(row, samples.batch(), noise, 0.1, 0);
  whole->sgd_step(all, samples.batch(), noise, 0.1, 0);
  const auto buffers = all.begin() + whole->layout().n_trainable();
  EXPECT_TRUE(std::equal(row.begin() + 3, row.end(), buffers));
  EXPECT_NE(row, initial_row(model));
}

TEST(PartModel, RefusesWhatCannotBeTrained) {
  const auto refused = [](const TrainedPart& part, std::initializer_list<std::string> words) {
    expect_error<InvalidArgument>([&] { PartModel(whole_model("mlp"), part); }, words);
  };
  refused({.train = {"fc1.*", "conv*"}}, {"'conv*'", "client.train", "fc1.weight, fc1.bias"});
  refused({.rank = 2, .layers = {"*.bias"}}, {"'*.bias'", "client.lora-layers", "fc1.weight, fc2"});
  refused({.rank = 6, .layers = {"fc[12]*"}}, {"rank of 6", "fc2.weight [5, 7]", "client.lora"});
  refused({.train = {"*"}, .rank = 1, .layers = {"*"}}, {"trained themselves", "client.train"});
}

}  // namespace
}  // namespace hanse
