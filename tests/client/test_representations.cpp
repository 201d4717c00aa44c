// MOON and FedProto as updates: what clients keep, send and start from.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/personal.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/model/distillation.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

constexpr int64_t kWidth = 4;

// Clients with samples of two classes; the last one has class 1 alone.
struct Classes {
  Classes() : clients(random_clients({5, 3, 8})), comm(make_single_communicator()) {
    for (std::size_t c = 0; c < clients.size(); ++c) {
      for (std::size_t i = 0; i < clients[c].y.size(); ++i) {
        clients[c].y[i] = c == 2 || i % 2 == 0 ? 1.0F : 0.0F;
      }
    }
    federation = std::make_unique<Federation>(make_federation(*comm, clients, "classification"));
  }
  std::unique_ptr<Model> model() const {
    return make_model({.kind = "mlp", .hidden = {kWidth}}, federation->sample_shape(),
                      federation->label_form());
  }

  std::vector<Samples> clients;
  std::unique_ptr<Communicator> comm;
  std::unique_ptr<Federation> federation;
};

ClientOptions options_of(const std::string& kind) {
  return {{.steps = 4, .batch = 2}, {.lr = 0.2, .momentum = 0.5}, {.kind = kind, .mu = 0}};
}

Row first_row(const Model& model) {
  Row row(static_cast<std::size_t>(model.n_params()));
  RandomStream stream(4, Purpose::kInitialize);
  model.initialize(row, stream);
  return row;
}

void expect_sgd(const LocalUpdate& made, LocalUpdate& update, LocalUpdate& sgd, const Row& start) {
  for (const int64_t client : {0, 1, 2}) {
    OneRound mine(made, start), plain(sgd, start);
    mine.control.assign(mine.control.size(), 0.5F);
    mine.train(update, client);
    plain.train(sgd, client);
    EXPECT_EQ(mine.row, plain.row);
    EXPECT_EQ(mine.outcome.loss, plain.outcome.loss);
  }
}

TEST(Moon, WithoutAWeightIsSgdBitForBit) {
  const Classes c;
  const auto model = c.model();
  const auto moon = make_moon(options_of("moon"), *c.federation, *model);
  EXPECT_EQ(moon->state_width(), 0);
  EXPECT_TRUE(moon->trains_side_by_side());
  const auto sgd = make_sgd(options_of("sgd"), *c.federation, *model);
  expect_sgd(*moon, *moon, *sgd, first_row(*model));
}

// The contrast moves the second participation, by the model that the first has left, and not the
// first.
TEST(Moon, ContrastsWithTheModelThatTheClientLeft) {
  const Classes c;
  const auto model = c.model(), plain_model = c.model();
  ClientOptions options = options_of("moon");
  options.mu = 3;
  contrast_with_models(*model, options.mu, options.temperature);
  const auto moon = make_moon(options, *c.federation, *model);
  const auto sgd = make_sgd(options_of("sgd"), *c.federation, *plain_model);
  EXPECT_EQ(moon->state_width(), model->n_params() + 1);
  EXPECT_FALSE(moon->trains_side_by_side());
  const Row start = first_row(*model);
  OneRound mine(*moon, start), plain(*sgd, start);
  mine.train(*moon, 0);
  plain.train(*sgd, 0);
  EXPECT_EQ(mine.row, plain.row);
  EXPECT_EQ(Row(mine.state.begin(), mine.state.end() - 1), mine.row);
  EXPECT_EQ(mine.state.back(), 1);

  // one step by hand: the model's own loss with the last row
  ClientOptions one = options;
  one.steps = 1;
  one.batch = 0;
  const auto single = make_moon(one, *c.federation, *model);
  OneRound again(*single, start);
  again.state = mine.state;
  again.train(*single, 0, 2);
  const Row last(mine.state.begin(), mine.state.end() - 1);
  model->receive({start, last});
  Row features;
  std::vector<int32_t> labels;
  for (std::size_t i = 0; i < c.clients[0].y.size(); ++i) {
    const auto& x = c.clients[0].x[i];
    features.insert(features.end(), x.begin(), x.end());
    labels.push_back(static_cast<int32_t>(c.clients[0].y[i]));
  }
  Row gradient(start.size());
  RandomStream noise(1, Purpose::kDropout);
  model->loss_and_gradient(
      start, {.features = features.data(), .labels = labels.data(), .rows = std::ssize(labels)},
      noise, gradient);
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_NEAR(again.row[i], start[i] - 0.2F * gradient[i], 1e-6) << i;
  }
  OneRound forgot(*single, start);
  forgot.train(*single, 0, 2);
  EXPECT_NE(forgot.row, again.row);
}

TEST(FedProto, WithoutAWeightIsSgdBitForBit) {
  const Classes c;
  const auto model = c.model();
  ClientOptions options = options_of("fedproto");
  options.lambda = 0;
  const auto proto = make_fedproto(options, *c.federation, *model);
  EXPECT_EQ(proto->state_width(), 0);
  EXPECT_EQ(proto->control_width(), 2 * (kWidth + 1));
  EXPECT_EQ(proto->control_block(), kWidth + 1);
  EXPECT_FALSE(proto->trains_side_by_side());
  const auto sgd = make_sgd(options_of("sgd"), *c.federation, *model);
  expect_sgd(*proto, *proto, *sgd, first_row(*model));
}

// max(0, W1 x + b1) of fc1 in the row.
Numbers represented(const Row& row, const std::vector<float>& x) {
  Numbers h(kWidth);
  for (std::size_t u = 0; u < kWidth; ++u) {
    h[u] = row[kWidth * x.size() + u];
    for (std::size_t j = 0; j < x.size(); ++j) h[u] += row[u * x.size() + j] * x[j];
    h[u] = std::max(0.0, h[u]);
  }
  return h;
}

// Eq. 3 at the trained model; by the share of the client's samples, or by the client.
TEST(FedProto, SendsTheMeansOfItsClasses) {
  const Classes c;
  const auto model = c.model();
  for (const UpdateVariant variant : {UpdateVariant::kPaper, UpdateVariant::kReference}) {
    ClientOptions options = options_of("fedproto");
    options.variant = variant;
    const auto proto = make_fedproto(options, *c.federation, *model);
    for (std::size_t client = 0; client < 3; ++client) {
      OneRound mine(*proto, first_row(*model));
      mine.change.assign(mine.change.size(), 0);
      mine.train(*proto, static_cast<int64_t>(client));
      Numbers expected(2 * (kWidth + 1));
      const Samples& samples = c.clients[client];
      for (std::size_t i = 0; i < samples.y.size(); ++i) {
        double* sum = expected.data() + (samples.y[i] > 0 ? kWidth + 1 : 0);
        const Numbers h = represented(mine.row, samples.x[i]);
        for (std::size_t u = 0; u < kWidth; ++u) sum[u] += h[u];
        ++sum[kWidth];
      }
      for (std::size_t first : {std::size_t{0}, std::size_t{kWidth + 1}}) {
        const double n = expected[first + kWidth];
        const double all = static_cast<double>(samples.y.size());
        const double by = variant == UpdateVariant::kPaper ? all : std::max(n, 1.0);
        for (std::size_t i = first; i <= first + kWidth; ++i) expected[i] /= by;
      }
      expect_close(mine.change, expected, 1e-6);
    }
  }
}

// Positions without a label are in no mean.
TEST(FedProto, SendsTheMeansOfLabelledPositions) {
  const ScratchFolder folder;
  std::ofstream(folder / "play.txt") << "A:\naababbbaaa\n";
  const DataOptions data{.kind = "text",
                         .path = folder / "play.txt",
                         .test_fraction = 0,
                         .vocabulary = Characters::kData,
                         .window = 4,
                         .targets = TextTargets::kEvery};
  const auto comm = make_single_communicator();
  const Federation federation = Federation::load(data, {.clients = 1}, 5, *comm);
  const auto labels = federation.labels();
  ASSERT_GT(std::ranges::count(labels, -1), 0);
  const auto model =
      make_model({.kind = "lstm"}, federation.sample_shape(), federation.label_form());
  const auto proto = make_fedproto(options_of("fedproto"), federation, *model);
  OneRound mine(*proto, first_row(*model));
  mine.change.assign(mine.change.size(), 0);
  mine.train(*proto, 0);
  const auto block = static_cast<std::size_t>(proto->control_block());
  const auto all = static_cast<float>(std::ssize(labels) - std::ranges::count(labels, -1));
  for (int32_t label = 0; label < federation.classes(); ++label) {
    const auto n = static_cast<float>(std::ranges::count(labels, label));
    EXPECT_FLOAT_EQ(mine.change[(static_cast<std::size_t>(label) + 1) * block - 1], n / all);
  }
}

TEST(FedProto, IsPulledByTheMeansItReceives) {
  const Classes c;
  const auto model = c.model();
  ClientOptions options = options_of("fedproto");
  pull_to_class_means(*model, options.lambda, MeanDistance::kOfMeans);
  const auto proto = make_fedproto(options, *c.federation, *model);
  const Row start = first_row(*model);
  OneRound none(*proto, start), pulled(*proto, start);
  std::ranges::fill(pulled.control, 1.0F);
  none.train(*proto, 0);
  pulled.train(*proto, 0);
  EXPECT_NE(none.row, pulled.row);
}

// All tensors stay; the means travel.
TEST(FedProto, TravelsWithoutTheModel) {
  const Classes c;
  const auto model = c.model();
  const ClientOptions options = options_of("fedproto");
  const auto proto = make_fedproto(options, *c.federation, *model);
  const auto mine = make_personal(make_fedproto(options, *c.federation, *model),
                                  personal_parts(model->layout(), {"*"}, true));
  EXPECT_EQ(mine->control_width(), proto->control_width());
  EXPECT_EQ(mine->control_block(), proto->control_block());
  const Row start = first_row(*model);
  OneRound kept(*mine, start), plain(*proto, start);
  for (OneRound* round : {&kept, &plain}) round->change.assign(round->change.size(), 0);
  kept.train(*mine, 1);
  plain.train(*proto, 1);
  EXPECT_EQ(kept.row, start);
  EXPECT_EQ(kept.change, plain.change);
  OneRound own(*mine, Row(start.size(), 7));
  own.state = kept.state;
  mine->own_model(own.task(1, 2));
  EXPECT_EQ(own.row, plain.row);
}

TEST(FedProto, NeedsClassesAndAHiddenLayer) {
  const Regression r(random_clients());
  expect_error<InvalidArgument>(
      [&] { make_fedproto(options_of("fedproto"), r.federation, *r.model); },
      {"represent", "model.kind"});
  const auto mlp = make_model({.kind = "mlp", .loss = "squared-error", .hidden = {3}},
                              r.federation.sample_shape(), 0);
  expect_error<InvalidArgument>([&] { make_fedproto(options_of("fedproto"), r.federation, *mlp); },
                                {"classes", "regression", "client.update"});
}

}  // namespace
}  // namespace hanse
