// Steps of clients' optimizers against LibTorch's own, and what may change no bit.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "client/support.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/schedule.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"
#include "support/updates.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

constexpr int64_t kClient = 1;
constexpr uint64_t kSeed = 9;

struct Fixture {
  explicit Fixture(const ModelOptions& options = {.kind = "linear"},
                   std::vector<int64_t> shape = {4})
      : comm(make_single_communicator()) {
    DataOptions data;
    data.kind = "random";
    data.shape = std::move(shape);
    data.classes = 3;
    data.test_fraction = 0;
    FederationOptions clients;
    clients.clients = 3;
    clients.samples = 23;
    federation = Federation::load(data, clients, kSeed, *comm);
    model = make_model(options, federation.sample_shape(), federation.classes());
    RandomStream random(5, Purpose::kInitialize);
    theta.resize(static_cast<std::size_t>(model->n_params()));
    model->initialize(theta, random);
  }

  // Participations in rounds 1, 2, ..., each from the row of the one before.
  Row train(const ClientOptions& options, int rounds = 1) {
    const auto update = sgd_or_prox(options, federation, *model);
    Row row = theta, state(static_cast<std::size_t>(update->state_width()));
    for (int round = 1; round <= rounds; ++round) {
      update->train({.client = kClient, .round = round, .seed = kSeed, .row = row, .state = state});
    }
    return row;
  }

  // Steps of the whole training split by LibTorch.
  Row reference(torch::optim::Optimizer& optimizer, torch::Tensor& w, int steps, double mu = 0) {
    const SampleRange range = federation.train(kClient);
    std::vector<float> features(
        static_cast<std::size_t>(range.size() * federation.sample_values()));
    federation.copy(range, features.data());
    const Batch batch = batch_of(federation, range, features.data());
    for (int step = 0; step < steps; ++step) {
      Row gradient(theta.size());
      RandomStream noise(0, Purpose::kDropout);
      const Row row(w.data_ptr<float>(), w.data_ptr<float>() + w.numel());
      model->loss_and_gradient(row, batch, noise, gradient);
      for (std::size_t i = 0; i < row.size(); ++i) {
        gradient[i] += static_cast<float>(mu) * (row[i] - theta[i]);
      }
      w.mutable_grad() = torch::tensor(gradient);
      optimizer.step();
    }
    return {w.data_ptr<float>(), w.data_ptr<float>() + w.numel()};
  }

  std::unique_ptr<Communicator> comm;
  Federation federation;
  std::unique_ptr<Model> model;
  Row theta;
};

void expect_close(const Row& row, const Row& expected, const std::string& what) {
  ASSERT_EQ(row.size(), expected.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    ASSERT_NEAR(row[i], expected[i], 2e-6) << what << ", entry " << i;
  }
}

double distance(const Row& a, const Row& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return largest;
}

// Whole-batch steps, so that the order of samples does not matter.
ClientOptions whole(const std::string& kind, double lr) {
  ClientOptions options{{.steps = 7, .batch = 0}, {.lr = lr}};
  options.optimizer.kind = kind;
  return options;
}

template <class Optimizer, class Options>
void expect_torch(const ClientOptions& options, const Options& torch_options,
                  const std::string& what) {
  Fixture f;
  torch::Tensor w = torch::tensor(f.theta);
  Optimizer optimizer(std::vector<torch::Tensor>{w}, torch_options);
  const double mu = options.kind == "prox" ? options.mu : 0;
  const Row expected = f.reference(optimizer, w, 7, mu);
  expect_close(f.train(options), expected, what);
  EXPECT_GT(distance(expected, f.theta), 0.01) << what;
  ClientOptions stored = options;
  stored.clip = 1e30;  // never clips, and stores the gradient
  EXPECT_EQ(f.train(stored), f.train(options)) << what;
}

TEST(Optimizer, StepsAreTorchs) {
  using namespace torch::optim;
  ClientOptions o = whole("adam", 0.05);
  expect_torch<Adam>(o, AdamOptions(0.05), "adam");
  o.weight_decay = 0.3;
  o.optimizer.beta1 = 0.7;
  o.optimizer.beta2 = 0.9;
  o.optimizer.eps = 1e-3;
  expect_torch<Adam>(o,
                     AdamOptions(0.05).weight_decay(0.3).betas(std::make_tuple(0.7, 0.9)).eps(1e-3),
                     "adam with decay");
  o.optimizer.kind = "adamw";
  expect_torch<AdamW>(
      o, AdamWOptions(0.05).weight_decay(0.3).betas(std::make_tuple(0.7, 0.9)).eps(1e-3), "adamw");
  o = whole("adagrad", 0.1);
  o.weight_decay = 0.2;
  o.optimizer.eps = 1e-4;
  expect_torch<Adagrad>(o, AdagradOptions(0.1).weight_decay(0.2).eps(1e-4), "adagrad");
  o = whole("rmsprop", 0.02);
  o.optimizer.beta2 = 0.8;
  expect_torch<RMSprop>(o, RMSpropOptions(0.02).alpha(0.8), "rmsprop");
  o.momentum = 0.6;
  o.weight_decay = 0.1;
  expect_torch<RMSprop>(o, RMSpropOptions(0.02).alpha(0.8).momentum(0.6).weight_decay(0.1),
                        "rmsprop with momentum");
  o = whole("sgd", 0.3);
  o.momentum = 0.8;
  o.weight_decay = 0.1;
  expect_torch<SGD>(o, SGDOptions(0.3).momentum(0.8).weight_decay(0.1), "momentum");
  o.optimizer.nesterov = true;
  expect_torch<SGD>(o, SGDOptions(0.3).momentum(0.8).weight_decay(0.1).nesterov(true), "nesterov");
  o.kind = "prox";
  o.mu = 0.7;
  expect_torch<SGD>(o, SGDOptions(0.3).momentum(0.8).weight_decay(0.1).nesterov(true), "prox");
}

// Tiles of a wide layer, and networks of LibTorch's: the gradient in parts is the gradient.
TEST(Optimizer, FusedStepsHaveTheBitsOfStoredGradients) {
  const std::pair<ModelOptions, std::vector<int64_t>> cases[] = {
      {{.kind = "mlp", .hidden = {120, 33}}, {784}},
      {{.kind = "lenet"}, {1, 28, 28}},
      {{.kind = "resnet18", .channels = 4}, {3, 8, 8}}};
  for (const auto& [model, shape] : cases) {
    Fixture f(model, shape);
    for (const std::string kind : {"sgd", "adamw", "rmsprop"}) {
      ClientOptions options{{.steps = 3, .batch = 20}, {.lr = 0.01, .momentum = 0.5}};
      options.optimizer.kind = kind;
      if (kind == "adamw") options.momentum = 0;
      ClientOptions stored = options;
      stored.clip = 1e30;
      EXPECT_EQ(f.train(options), f.train(stored)) << model.kind << ", " << kind;
    }
  }
}

// Moments that are kept make two rounds one of as many steps; fresh ones do not.
TEST(Optimizer, KeptMomentsGoOn) {
  for (const std::string kind : {"sgd", "adam", "adamw", "adagrad", "rmsprop"}) {
    Fixture f;
    ClientOptions options = whole(kind, 0.05);
    options.weight_decay = 0.1;
    if (kind == "sgd" || kind == "rmsprop") options.momentum = 0.7;
    ClientOptions twice = options;
    twice.steps = 14;
    const Row expected = f.train(twice);
    EXPECT_GT(distance(f.train(options, 2), expected), 1e-4) << kind;
    options.optimizer.state = Moments::kKept;
    expect_close(f.train(options, 2), expected, kind);
  }
}

TEST(Optimizer, AccumulatedBatchesAreOne) {
  for (const double clip : {0.0, 0.05}) {
    Fixture f;  // 23 samples: batches of 5, 5, 5 | 5, 3, 5 | ... of two passes
    ClientOptions small{{.epochs = 2, .batch = 5}, {.lr = 0.1, .accumulate = 100, .clip = clip}};
    ClientOptions one{{.steps = 1, .batch = 0}, {.lr = 0.1, .clip = clip}};
    // Every sample twice: the mean is that of one pass.
    expect_close(f.train(small), f.train(one), "one step");
    small = {{.epochs = 1, .batch = 5}, {.lr = 0.1, .accumulate = 3, .clip = clip}};
    one = {{.epochs = 1, .batch = 15}, {.lr = 0.1, .clip = clip}};  // 15 and 8
    expect_close(f.train(small), f.train(one), "two steps");
    EXPECT_EQ(RoundSteps(small).optimizer_steps(23), 2);
    small.optimizer.kind = one.optimizer.kind = "adam";
    expect_close(f.train(small), f.train(one), "two steps of adam");
  }
}

std::vector<double> rates(ClientOptions options, int64_t n) {
  std::vector<double> over_rounds, over_steps;
  const Schedule of_rounds(options);
  for (int64_t t = 0; t < n; ++t) over_rounds.push_back(of_rounds.rate(t + 1));
  options.schedule.over = ScheduleOver::kSteps;
  const Schedule of_steps(options);
  for (int64_t t = 0; t < n; ++t) over_steps.push_back(of_steps.rate(3, t, n));
  if (options.schedule.length == n) {
    EXPECT_EQ(over_rounds, over_steps);
  }
  EXPECT_EQ(of_steps.rate(5), options.lr);
  return over_rounds;
}

// torch.optim.lr_scheduler.OneCycleLR, written down as in Python.
std::vector<double> torch_one_cycle(double max_lr, int total) {
  const double initial = max_lr / 25, least = initial / 1e4;
  const double ends[] = {0.3 * total - 1, total - 1.0};
  const double lrs[][2] = {{initial, max_lr}, {max_lr, least}};
  std::vector<double> all;
  for (int step = 0; step < total; ++step) {
    double start = 0;
    for (int phase = 0; phase < 2; ++phase) {
      if (step <= ends[phase] || phase == 1) {
        const double share = (step - start) / (ends[phase] - start);
        const double wave = std::cos(std::numbers::pi * share) + 1;
        all.push_back(lrs[phase][1] + (lrs[phase][0] - lrs[phase][1]) / 2 * wave);
        break;
      }
      start = ends[phase];
    }
  }
  return all;
}

TEST(Schedule, RatesFollowTheFormulas) {
  ClientOptions o{{}, {.lr = 0.5, .lr_decay = 0.25, .lr_decay_every = 2}};
  const auto expect = [&](const std::string& kind, int64_t length,
                          const std::vector<double>& expected) {
    o.schedule.kind = kind;
    o.schedule.length = length;
    const auto found = rates(o, std::ssize(expected));
    for (std::size_t t = 0; t < expected.size(); ++t) {
      EXPECT_NEAR(found[t], expected[t], 1e-12) << kind << " at " << t;
    }
  };
  expect("constant", 4, {0.5, 0.5, 0.5, 0.5});
  expect("step", 5, {0.5, 0.5, 0.125, 0.125, 0.03125});
  expect("exponential", 5, {0.5, 0.25, 0.125, 0.0625, 0.03125});
  o.schedule.end = 0.2;
  expect("linear", 4, {0.5, 0.4, 0.3, 0.2, 0.2, 0.2});  // behind the end it stays
  const double half = 0.1 + 0.4 / 2, wave = 0.4 / 2 * std::sqrt(0.5);
  expect("cosine", 4, {0.5, half + wave, half, half - wave, half - wave});
  for (const int total : {1, 2, 7, 10, 40}) {
    expect("one-cycle", total, torch_one_cycle(0.5, total));
  }
  o.schedule.warmup = 4;
  expect("step", 8, {0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.125, 0.125});
  expect("linear", 6, {0.125, 0.25, 0.375, 0.5, 0.5, 0.3});
}

// Over a round's steps a round has as many sizes as it makes steps.
TEST(Schedule, MovesWithinARound) {
  Fixture f;
  ClientOptions o = whole("sgd", 0.4);
  o.steps = 3;
  o.schedule = {.kind = "linear", .over = ScheduleOver::kSteps, .length = 100};
  const Row moved = f.train(o, 2);
  torch::Tensor w = torch::tensor(f.theta);
  torch::optim::SGD sgd({w}, torch::optim::SGDOptions(0));
  for (int step = 0; step < 6; ++step) {  // from the start anew in the second round
    dynamic_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options())
        .lr(0.4 * (1 - (step % 3) / 3.0));
    f.reference(sgd, w, 1);
  }
  expect_close(moved, {w.data_ptr<float>(), w.data_ptr<float>() + w.numel()}, "linear");
  EXPECT_NEAR(RoundSteps(o).feedback_scale(1, 23), 1 / (std::pow(0.4 * 2 / 3, 2) * 3), 1e-9);
}

// Balanced weights are n / (k n_c), over the client's samples or everybody's.
TEST(ClassWeights, AreBalanced) {
  Fixture f;
  smooth_labels(*f.model, 0);
  std::vector<double> mine(3), all(3);
  for (int64_t client = 0; client < 3; ++client) {
    const SampleRange range = f.federation.train(client);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const auto label =
          static_cast<std::size_t>(f.federation.labels()[static_cast<std::size_t>(i)]);
      ++all[label];
      if (client == kClient) ++mine[label];
    }
  }
  const auto list = [](const std::vector<double>& counts) {
    const double n = counts[0] + counts[1] + counts[2];
    return fmt::format("{},{},{}", n / (3 * counts[0]), n / (3 * counts[1]), n / (3 * counts[2]));
  };
  const auto with = [&](const std::string& weights) {
    ClientOptions options = whole("sgd", 0.5);
    options.class_weights = weights;
    return f.train(options);
  };
  expect_close(with("client"), with(list(mine)), "of the client");
  expect_close(with("all"), with(list(all)), "of all");
  EXPECT_EQ(with("none"), with("1,1,1"));
  EXPECT_EQ(with("0,0,0"), f.theta);
  EXPECT_GT(distance(with("client"), with("all")), 1e-4);
  EXPECT_GT(distance(with("client"), with("none")), 1e-4);
}

TEST(Optimizer, BadInputIsRefused) {
  Fixture f;
  const auto refuses = [&](const ClientOptions& options, std::initializer_list<std::string> parts,
                           auto make) {
    expect_error<InvalidArgument>([&] { make(options, f.federation, *f.model); }, parts);
  };
  const auto weighted = [](const char* weights) {
    ClientOptions options;
    options.class_weights = weights;
    return options;
  };
  ClientOptions o{{}, {.momentum = 0.5}};
  o.optimizer.kind = "adamw";
  refuses(o, {"adamw has moments of its own", "(client.momentum)", "rmsprop"}, make_sgd);
  o = {};
  o.optimizer.nesterov = true;
  refuses(o, {"look ahead", "(client.nesterov)"}, make_sgd);
  refuses(weighted("1,2"), {"2 weights for 3 classes", "(client.class-weights)"}, make_sgd);
  refuses(weighted("clients"), {"'clients'", "none, client, all"}, make_sgd);
  refuses(weighted("1,-2,1"), {"less than 0"}, make_sgd);
}

}  // namespace
}  // namespace hanse
