// What clients side by side train for and on, against one after the other: forms of labels, losses
// other than the model's, changed samples, and squared losses.
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "client/cohort_cases.hpp"
#include "support/errors.hpp"
#include "support/graph_file.hpp"
#include "support/objective_file.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

const std::vector<int64_t> kClients{3, 0, 6, 5, 1};
constexpr int64_t kNoSamples = 0;  // of the device's memory

// A table of seven clients with 1 to 9 samples of four features; `label` writes a sample's.
template <class Label>
Federation table(const std::string& columns, const std::string& task, Label label) {
  const ScratchFolder folder;
  RandomStream random(3, Purpose::kData);
  std::string text = "client,x0,x1,x2,x3," + columns + "\n";
  const int sizes[] = {1, 5, 2, 9, 1, 4, 7};
  for (int client = 0; client < 7; ++client) {
    for (int i = 0; i < sizes[client]; ++i) {
      text += fmt::format("{}", client);
      for (int j = 0; j < 4; ++j) text += fmt::format(",{:.3f}", random.normal());
      text += "," + label(random) + "\n";
    }
  }
  std::ofstream(folder / "table.csv") << text;
  return Federation::load({.kind = "csv",
                           .path = folder / "table.csv",
                           .test_fraction = 0,
                           .label_column = columns,
                           .client_column = "client",
                           .task = task},
                          {.partition = "by-column"}, kSeed, *make_single_communicator());
}

Federation several_labels() {
  return table("a,b,c", "classification", [](RandomStream& random) {
    return fmt::format("{},{},{}", random.below(2), random.below(2), random.below(2));
  });
}

Federation several_outputs() {
  return table("a,b", "regression", [](RandomStream& random) {
    return fmt::format("{:.3f},{:.3f}", random.normal(), 2 * random.normal());
  });
}

// Windows of text, whose last ones have positions without a label.
Federation labelled_positions() {
  const ScratchFolder folder;
  std::string text;
  RandomStream random(3, Purpose::kData);
  for (const int length : {8, 23, 9, 31, 12, 17, 26}) {
    text += fmt::format("CLIENT{}:\n", length);
    for (int i = 0; i < length; ++i) text += static_cast<char>('a' + random.below(5));
    text += "\n\n";
  }
  std::ofstream(folder / "play.txt") << text;
  return Federation::load({.kind = "text",
                           .path = folder / "play.txt",
                           .test_fraction = 0,
                           .vocabulary = Characters::kData,
                           .window = 5,
                           .targets = TextTargets::kEvery},
                          {.partition = "by-column"}, kSeed, *make_single_communicator());
}

ModelOptions reader_of(const std::string& name, const Federation& federation, double dropout) {
  ModelOptions options = kind(name);
  options.vocabulary = federation.classes();
  options.embedding = 6;
  options.units = 5;
  options.layers = 2;
  options.heads = 2;
  options.dropout = dropout;
  return options;
}

// Losses, correct predictions and all results of samples, as the model in the host's memory has
// them.
void expect_same_evaluation(const Case& c, const Federation& federation, const std::string& what) {
  const auto [model, part] = model_of(c, federation);
  const Row row = initial_row(*model, c);
  RowEvaluator expected(federation, *model);
  expected.at(row);
  const LabelForm form = federation.label_form();
  const SampleRange range{0, federation.samples()};
  const int64_t values = form.is_sequence() ? form.values : 1;
  const int64_t outputs = form.classes > 0 ? form.classes * form.values : form.values;
  for (const std::string& device : test_devices()) {
    for (const int64_t sample_bytes : {kNoSamples, kAllSamples}) {
      CohortTraining training(c.client, federation, c.model, device, 2, sample_bytes, /*starts=*/{},
                              part);
      training.cohort().put_theta(row);
      std::vector<int32_t> ranks[2], classes[2];
      std::vector<float> logits[2];
      EvaluationSums sums[2];
      for (const int side : {0, 1}) {
        ranks[side].resize(to_index(range.size() * values), -2);
        classes[side] = ranks[side];
        logits[side].resize(to_index(range.size() * outputs));
        Evaluator& evaluator = side == 0 ? static_cast<Evaluator&>(expected) : training;
        sums[side] =
            evaluator.range(range, {.ranks = form.classes > 0 ? ranks[side].data() : nullptr,
                                    .classes = form.classes > 0 ? classes[side].data() : nullptr,
                                    .outputs = logits[side].data(),
                                    .values = values,
                                    .logits = outputs});
      }
      EXPECT_NEAR(sums[1].loss, sums[0].loss, 1e-5 * static_cast<double>(sums[0].samples)) << what;
      EXPECT_NEAR(sums[1].correct, sums[0].correct, 1e-9) << what;
      EXPECT_EQ(ranks[1], ranks[0]) << what;
      EXPECT_EQ(classes[1], classes[0]) << what;
      for (std::size_t i = 0; i < logits[0].size(); ++i) {
        EXPECT_NEAR(logits[1][i], logits[0][i], 1e-5) << what;
      }
    }
  }
}

void expect_form(const Case& c, const Federation& federation, const std::string& what) {
  expect_agreement(c, federation, kClients, what);
  expect_agreement(c, federation, kClients, what + ", samples apart", test_devices(), kNoSamples);
  Case squared = c;
  squared.squares = true;
  expect_agreement(squared, federation, kClients, what + ", squares");
  expect_same_evaluation(c, federation, what);
}

TEST(CohortLosses, EveryFormOfLabels) {
  const Federation labels = several_labels(), outputs = several_outputs();
  EXPECT_TRUE(labels.label_form().multi_label);
  EXPECT_EQ(outputs.label_form().values, 2);
  for (const char* name : {"linear", "mlp"}) {
    expect_form({.model = kind(name, "binary-logistic")}, labels, name + std::string(", labels"));
    expect_form({.model = kind(name, "squared-error")}, outputs, name + std::string(", outputs"));
  }
  const Federation positions = labelled_positions();
  const auto& all = positions.labels();
  EXPECT_EQ(positions.clients(), 7);
  EXPECT_GT(std::ranges::count(all, -1), 0);
  for (const char* name : {"lstm", "transformer"}) {
    for (const double dropout : {0.0, 0.25}) {
      expect_form({.model = reader_of(name, positions, dropout)}, positions, name);
    }
  }
}

Case with(const std::string& name, const std::function<void(ClientOptions&)>& change) {
  Case c{.model = kind(name)};
  if (name == "lenet") c.shape = {2, 12, 13};
  if (name == "cnn-cifar") c.shape = {3, 8, 9};  // with dropout
  if (name == "graph") c.model.path = written(dropout_graph());
  change(c.client);
  return c;
}

TEST(CohortLosses, SmoothedAndWeighedLabels) {
  for (const char* name : {"linear", "mlp", "cnn-cifar", "graph"}) {
    const auto expect = [&](const auto& change, const char* what) {
      expect_agreement(with(name, change), name + std::string(", ") + what);
    };
    expect([](ClientOptions& o) { o.label_smoothing = 0.2; }, "smoothed");
    expect([](ClientOptions& o) { o.class_weights = "client"; }, "client");
    expect([](ClientOptions& o) { o.class_weights = "0.5,0,2", o.clip = 0.4; }, "listed");
    expect([](ClientOptions& o) { o.class_weights = "all", o.label_smoothing = 0.1; }, "both");
  }
  Case parts =
      with("mlp", [](ClientOptions& o) { o.label_smoothing = 0.3, o.class_weights = "all"; });
  parts.part = {.train = {"fc2*"}, .rank = 2, .layers = {"fc1*"}};
  expect_agreement(parts, "of a part");
  const Federation positions = labelled_positions();
  Case reader{.model = reader_of("lstm", positions, 0.25)};
  reader.client.label_smoothing = 0.2;
  reader.client.class_weights = "client";
  expect_agreement(reader, positions, kClients, "positions");
}

const std::string kCrossEntropy =
    "  loss = torch.cross_entropy_loss(logits, labels, None, 0, -100, 0.0)\n";

// Each with something that only its own arguments tell.
TEST(CohortLosses, ObjectivesOfTheUsersOwn) {
  const std::string weighed =
      objective_file("logits, labels, sample_weights",
                     kCrossEntropy + "  return (loss * sample_weights).mean()\n");
  const std::string near = objective_file(
      "logits, labels, row, received_row",
      kCrossEntropy + "  return loss.mean() + 0.3 * (row - received_row).square().sum()\n");
  const std::string distilled = objective_file(
      "logits, labels, received_logits",
      kCrossEntropy + "  return loss.mean() + (logits - received_logits + 0.1).square().mean()\n");
  for (const char* name : {"linear", "mlp", "cnn-cifar", "graph"}) {
    for (const std::string& file : {weighed, near, distilled}) {
      const auto change = [&](ClientOptions& o) { o.objective = file, o.class_weights = "client"; };
      expect_agreement(with(name, change), name);
      Case part = with(name, change);
      if (name == std::string("mlp")) {
        part.part = {.train = {"fc2*"}, .rank = 2, .layers = {"fc1*"}};
        expect_agreement(part, "of a part");
      }
    }
  }
  Case prox =
      with("mlp", [&](ClientOptions& o) { o.objective = near, o.kind = "prox", o.mu = 0.5; });
  expect_agreement(prox, "prox");
  Case several{.model = kind("mlp", "binary-logistic")};
  several.client.objective =
      objective_file("logits, labels", "  return (logits.sigmoid() - labels).square().mean()\n");
  expect_agreement(several, several_labels(), kClients, "several labels");
}

TEST(CohortLosses, AnObjectiveThatFailsIsNamed) {
  const auto comm = make_single_communicator();
  const Case c = with("linear", [](ClientOptions& o) {
    o.objective =
        objective_file("logits, labels", "  return logits.sum() * int(1 // (3 - len(labels)))\n");
  });
  const Federation federation = unequal_federation(*comm, c);
  for (const std::string& device : test_devices()) {
    expect_error<Error>([&] { side_by_side(c, federation, kClients, 2, device, 5); },
                        {"the objective fails on a batch of 3"});
  }
}

// Compares images in training, with each way of holding the samples, and sees that they differ.
void expect_changed(const std::function<void(ClientOptions&)>& change, const std::string& what) {
  const auto comm = make_single_communicator();
  for (const char* name : {"lenet", "cnn-cifar"}) {
    Case c = with(name, change);
    c.squares = own_loss_key(c.client).empty();
    const Federation federation = unequal_federation(*comm, c);
    for (const int64_t sample_bytes : {kNoSamples, kAllSamples}) {
      expect_agreement(c, federation, kClients, what, test_devices(), sample_bytes);
    }
    Case plain = c;
    plain.client = with(name, [](ClientOptions&) {}).client;
    EXPECT_GT(furthest(one_by_one(c, federation, {3}, 2).rows[0],
                       one_by_one(plain, federation, {3}, 2).rows[0]),
              1e-4F)
        << what;
  }
}

TEST(CohortLosses, AugmentedImages) {
  using Augmented = AugmentationOptions;
  for (const Augmented& augmentation :
       {Augmented{.crop = 2}, Augmented{.flip = 0.5}, Augmented{.cutout = 4},
        Augmented{.mixup = 0.4}, Augmented{.crop = 1, .flip = 0.5, .cutout = 3, .mixup = 1.5}}) {
    expect_changed([&](ClientOptions& o) { o.augmentation = augmentation; },
                   fmt::format("crop {}, flip {}, cutout {}, mixup {}", augmentation.crop,
                               augmentation.flip, augmentation.cutout, augmentation.mixup));
  }
  const Augmented mixed{.mixup = 0.7};
  expect_changed(
      [&](ClientOptions& o) {
        o.augmentation = mixed, o.label_smoothing = 0.1, o.class_weights = "client";
      },
      "smoothed mixtures");
  const std::string own = objective_file(
      "logits, labels, row", kCrossEntropy + "  return loss.mean() + 0.1 * row.square().sum()\n");
  expect_changed([&](ClientOptions& o) { o.augmentation = mixed, o.objective = own; },
                 "mixtures of an objective");
}

// Whether the device changes the images or the host does.
TEST(CohortLosses, AugmentedImagesHaveTheHostsBits) {
  const auto comm = make_single_communicator();
  for (const char* name : {"lenet", "cnn-cifar", "mlp", "resnet18"}) {
    for (const double mixup : {0.0, 0.6}) {
      Case c = with(name, [&](ClientOptions& o) {
        o.augmentation = {.crop = 2, .flip = 0.5, .cutout = 3, .mixup = mixup};
        o.clip = 1;
      });
      if (c.shape.size() == 1) c.shape = {2, 8, 9};
      c.model.channels = 4;
      c.model.groups = 2;
      const Federation federation = unequal_federation(*comm, c);
      for (const std::string& device : test_devices()) {
        const Trained expected = side_by_side(c, federation, kClients, 2, device, 6, kNoSamples);
        const Trained got = side_by_side(c, federation, kClients, 2, device, 6, kAllSamples);
        for (std::size_t i = 0; i < kClients.size(); ++i) {
          EXPECT_EQ(got.rows[i], expected.rows[i]) << name << " on " << device;
          EXPECT_EQ(got.outcomes[i].loss, expected.outcomes[i].loss) << name << " on " << device;
        }
      }
    }
  }
}

TEST(CohortLosses, PoisonedSamples) {
  for (const Poison poison : {Poison::kFlip, Poison::kBackdoor}) {
    expect_changed(
        [&](ClientOptions& o) {
          o.poison = {.kind = poison, .clients = {3, 5}, .first_round = 1, .last_round = 2};
        },
        poison == Poison::kFlip ? "flipped" : "backdoor");
  }
}

TEST(CohortLosses, SquaresOfEveryLoss) {
  const auto expect = [](Case c, const std::string& what) {
    c.squares = true;
    expect_agreement(c, what);
  };
  for (const char* name : {"linear", "mlp", "cnn-cifar", "graph"}) {
    expect(with(name, [](ClientOptions&) {}), name);
  }
  expect({.model = kind("mlp", "binary-logistic"), .classes = 2}, "binary-logistic");
  expect({.model = kind("mlp", "squared-error"), .classes = 0}, "squared-error");
  Case wide{.model = kind("mlp")};  // beyond what one kernel's head has
  wide.model.hidden = {300};
  wide.classes = 70;
  expect(wide, "wide");
}

// They are counted anew in every round, and cost nobody a bit.
TEST(CohortLosses, SquaresLeaveNoTrace) {
  const auto comm = make_single_communicator();
  Case c = with("mlp", [](ClientOptions&) {});
  const Federation federation = unequal_federation(*comm, c);
  const auto [model, part] = model_of(c, federation);
  const Row theta = initial_row(*model, c);
  for (const std::string& device : test_devices()) {
    CohortTraining training(c.client, federation, c.model, device, 5, kAllSamples);
    training.cohort().put_theta(theta);
    Trained trained[3];
    for (const int turn : {0, 1, 2}) {
      auto outcomes = training.train(tasks_of(kClients, 1, turn != 1));
      training.finish(losses_of(training), outcomes);
      trained[turn] = rows_of(training, kClients, outcomes);
    }
    for (std::size_t i = 0; i < kClients.size(); ++i) {
      EXPECT_EQ(trained[1].rows[i], trained[0].rows[i]);
      EXPECT_EQ(trained[1].outcomes[i].squares, 0);
      EXPECT_GT(trained[0].outcomes[i].squares, 0);
      EXPECT_EQ(trained[2].outcomes[i].squares, trained[0].outcomes[i].squares);
    }
  }
}

}  // namespace
}  // namespace hanse
