// Steps that move some tensors: client.phases, client.alternate, evaluate.tune.
#include <cmath>

#include <gtest/gtest.h>

#include "batch_stream.hpp"
#include "client/regression.hpp"
#include "hanse/client/movement.hpp"
#include "hanse/client/round_steps.hpp"
#include "support/errors.hpp"
#include "support/updates.hpp"

namespace hanse {
namespace {

ParameterLayout five_tensors() {
  ParameterLayout layout;
  layout.add("fc1.weight", {3, 2}, 2);
  layout.add("fc1.bias", {2}, 2);
  layout.add("fc2.weight", {4}, 2);
  layout.add("fc2.bias", {1}, 2);
  layout.add_buffer("norm.mean", {3});
  return layout;
}

ClientOptions asked(const std::string& phases, const std::string& personal = "fc2.*") {
  ClientOptions options;
  options.phases = LocalPhases::parse(phases);
  options.personal = personal;
  return options;
}

std::vector<std::pair<int64_t, int64_t>> borders(const MovingPart& part) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const RowPart& one : part.parts) found.emplace_back(one.begin, one.end);
  return found;
}

using Borders = std::vector<std::pair<int64_t, int64_t>>;

TEST(Phases, AreReadAndWritten) {
  const LocalPhases phases = LocalPhases::parse(" personal  10,fc1.* 5 ");
  EXPECT_EQ(phases.text(), "personal 10, fc1.* 5");
  EXPECT_EQ(phases.length(), 15);
  EXPECT_EQ(LocalPhases::parse("").length(), 0);
  EXPECT_EQ(LocalPhases::parse("all 9223372036854775807, all 2").length(), INT64_MAX);
  for (const char* wrong : {"all", "all 0", "all -1", "all x", "3"}) {
    EXPECT_THROW(LocalPhases::parse(wrong), InvalidArgument) << wrong;
  }
}

TEST(Phases, TakeThePlaceOfEpochsAndSteps) {
  LocalWork work{.epochs = 3, .batch = 4};
  work.phases = LocalPhases::parse("personal 2, shared 5");
  EXPECT_EQ(local_steps(work, 10), 7 * 3);
  EXPECT_EQ(samples_processed(work, 10), 7 * 10);
  work.steps = 1;
  EXPECT_EQ(local_steps(work, 10), 7);
}

TEST(Movement, HasTheTensorsOfEachPhase) {
  const Movement all = movement_of(asked("personal 1, shared 2, all 3, *bias 4"), five_tensors());
  ASSERT_EQ(all.phases.size(), 4);
  EXPECT_FALSE(all.by_rounds);
  EXPECT_EQ(borders(all.phases[0].part), (Borders{{8, 13}}));
  EXPECT_EQ(borders(all.phases[1].part), (Borders{{0, 8}}));
  EXPECT_EQ(borders(all.phases[2].part), (Borders{{0, 13}}));  // no buffers
  EXPECT_TRUE(all.phases[2].part.all);
  EXPECT_EQ(borders(all.phases[3].part), (Borders{{6, 8}, {12, 13}}));
  EXPECT_EQ(all.phases[3].part.size(), 3);
}

TEST(Movement, TellsPersonalFromClusteredTensors) {
  ClientOptions options = asked("personal 1, clustered 1, shared 1", "fc2.bias");
  options.clustered = "fc1.*";
  options.models = 2;
  const Movement parts = movement_of(options, five_tensors());
  EXPECT_EQ(borders(parts.phases[0].part), (Borders{{12, 13}}));
  EXPECT_EQ(borders(parts.phases[1].part), (Borders{{0, 8}}));
  EXPECT_EQ(borders(parts.phases[2].part), (Borders{{8, 12}}));
}

TEST(Movement, KeepsToWhatMovesAtAll) {
  ClientOptions options;
  EXPECT_TRUE(movement_of(options, five_tensors()).phases.empty());
  options.moves = "*";
  EXPECT_TRUE(movement_of(options, five_tensors()).phases.empty());
  options.moves = "fc1.*";
  const Movement part = movement_of(options, five_tensors());
  ASSERT_EQ(part.phases.size(), 1);
  EXPECT_TRUE(part.by_rounds);
  EXPECT_EQ(borders(part.phases[0].part), (Borders{{0, 8}}));
  options.phases = LocalPhases::parse("*bias 1, all 1");
  const Movement phases = movement_of(options, five_tensors());
  EXPECT_EQ(borders(phases.phases[0].part), (Borders{{6, 8}}));
  EXPECT_EQ(borders(phases.phases[1].part), (Borders{{0, 8}}));
}

TEST(Movement, TellsWhatOfARowARoundMoves) {
  const ParameterLayout layout = five_tensors();
  ClientOptions options;
  const auto moved = [&](int64_t round) {
    MovingPart part;
    part.parts = movement_of(options, layout).moved_in(round, layout);
    return borders(part);
  };
  EXPECT_EQ(moved(1), (Borders{{0, 16}}));
  options.alternate = "fc1.*, fc2.bias";
  EXPECT_EQ(moved(1), (Borders{{0, 8}, {13, 16}}));  // and the buffers
  EXPECT_EQ(moved(2), (Borders{{12, 13}, {13, 16}}));
}

TEST(Movement, RefusesWhatMovesNothing) {
  const auto refuse = [](const ClientOptions& options, std::initializer_list<std::string> words) {
    expect_error<InvalidArgument>([&] { movement_of(options, five_tensors()); }, words);
  };
  refuse(asked("personal 1, shared 2", ""), {"'personal'", "client.phases", "client.personal"});
  refuse(asked("shared 2", "*"), {"'shared'", "client.phases"});
  refuse(asked("head.* 2"), {"'head.*'", "client.phases", "fc1.weight"});
  refuse(asked("norm.* 2"), {"'norm.*'", "client.phases"});  // a buffer
  ClientOptions alternate;
  alternate.alternate = "fc1.*, head";
  refuse(alternate, {"'head'", "client.alternate"});
}

// The phases of mini-batches 1, 2, ... and by how much moments' ages change there.
TEST(PhaseWalk, GoesOnWhereThePhaseBeforeHasStopped) {
  const Movement movement = movement_of(asked("*bias 1, fc2.weight 2, fc2.* 1"), five_tensors());
  PhaseWalk walk(movement, 7);
  std::vector<std::size_t> phases;
  std::vector<int64_t> changes;
  for (int i = 0; i < 9; ++i) {
    if (walk.next(/*unit=*/2)) changes.push_back(walk.age_change());
    phases.push_back(walk.number());
  }
  EXPECT_EQ(phases, (std::vector<std::size_t>{0, 0, 1, 1, 1, 1, 2, 2, 2}));
  // fc2.weight's moments have seen none of the first two steps, fc2's have seen them all.
  EXPECT_EQ(changes, (std::vector<int64_t>{0, -2, 2}));
}

TEST(PhaseWalk, TakesRoundsInTurn) {
  ClientOptions options;
  options.alternate = "fc1.*, fc2.*, *bias";
  const Movement movement = movement_of(options, five_tensors());
  for (const int64_t round : {1, 2, 3, 4, 8}) {
    PhaseWalk walk(movement, round);
    EXPECT_TRUE(walk.next(1));
    EXPECT_FALSE(walk.next(1));
    EXPECT_EQ(walk.number(), (round - 1) % 3);
  }
}

// Two layers: mini-batches of an mlp.
struct Layers {
  Layers() : comm(make_single_communicator()) {
    DataOptions data{.kind = "random", .test_fraction = 0, .shape = {4}, .classes = 3};
    federation =
        Federation::load(data, {.clients = 3, .partition = "iid", .samples = 23}, 9, *comm);
    model = make_model({.kind = "mlp", .hidden = {5}}, {4}, 3);
    theta.resize(static_cast<std::size_t>(model->n_params()));
    RandomStream random(5, Purpose::kInitialize);
    model->initialize(theta, random);
  }

  OneRound train(const ClientOptions& options, int64_t round = 1, const Row& from = {}) const {
    const auto update = sgd_or_prox(options, federation, *model);
    OneRound one(*update, from.empty() ? theta : from);
    one.train(*update, 1, round);
    return one;
  }

  std::unique_ptr<Communicator> comm;
  Federation federation;
  std::unique_ptr<Model> model;
  Row theta;
};

constexpr std::size_t kHead = 5 * 4 + 5;  // where fc2 begins

void expect_same(const OneRound& one, const OneRound& other, const std::string& what) {
  EXPECT_EQ(one.row, other.row) << what;
  EXPECT_EQ(one.outcome.loss, other.outcome.loss) << what;
  EXPECT_EQ(one.outcome.samples, other.outcome.samples) << what;
}

std::vector<ClientOptions> ways() {
  std::vector<ClientOptions> all(6);
  for (ClientOptions& options : all) {
    options.batch = 4;
    options.steps = 9;
  }
  all[1].momentum = 0.9;
  all[1].weight_decay = 0.01;
  all[2].kind = "prox";
  all[2].mu = 0.5;
  all[3].clip = 0.1;
  all[4].optimizer.kind = "adam";
  all[4].lr = 0.01;
  all[5].steps = 0;
  all[5].epochs = 9;
  all[5].schedule = {.kind = "linear", .over = ScheduleOver::kSteps};
  return all;
}

TEST(Phases, OfAllAreTheSameStepsBitForBit) {
  const Layers layers;
  for (ClientOptions options : ways()) {
    const OneRound plain = layers.train(options);
    options.phases = LocalPhases::parse("all 9");
    if (options.steps > 0) options.steps = 1;
    expect_same(layers.train(options), plain, options.kind);
    options.phases = LocalPhases::parse("all 2, *.* 7");
    expect_same(layers.train(options), plain, options.kind);
    options.phases = {};
    if (options.steps > 0) options.steps = 9;
    options.alternate = "*";
    expect_same(layers.train(options, 1), plain, options.kind);
  }
}

// A phase moves its part from the row, and with the mini-batches, of the phase before.
TEST(Phases, MoveTheirPartAlone) {
  const Layers layers;
  for (ClientOptions options : ways()) {
    options.personal = "fc2.*";
    if (options.steps > 0) options.steps = 1;
    const auto at = [&](const std::string& phases) {
      options.phases = LocalPhases::parse(phases);
      return layers.train(options).row;
    };
    const auto head = layers.theta.begin() + kHead;
    const Row first = at("personal 3"), both = at("personal 3, shared 4");
    EXPECT_TRUE(std::equal(layers.theta.begin(), head, first.begin()));
    EXPECT_FALSE(std::equal(head, layers.theta.end(), first.begin() + kHead));
    EXPECT_FALSE(std::equal(layers.theta.begin(), head, both.begin()));
    if (options.schedule.over == ScheduleOver::kSteps) continue;  // which has other steps then
    EXPECT_TRUE(std::equal(first.begin() + kHead, first.end(), both.begin() + kHead));
    // From what the first phase has left, and not from its gradients.
    EXPECT_NE(Row(both.begin(), both.begin() + kHead), [&] {
      const Row alone = at("shared 4");
      return Row(alone.begin(), alone.begin() + kHead);
    }());
  }
}

// Mini-batch by mini-batch of one stream, with one velocity: 4 steps of the first layer, then 5 of
// the second.
TEST(Phases, FollowTheirOwnGradients) {
  const Layers layers;
  ClientOptions options{{.steps = 1, .batch = 4}, {.lr = 0.1, .momentum = 0.5}};
  options.phases = LocalPhases::parse("fc1.* 2, fc2.* 3, fc1.* 2, fc2.* 2");
  const OneRound found = layers.train(options);
  BatchStream stream(options, layers.federation);
  Row row = layers.theta, velocity(row.size()), gradient(row.size());
  double lost = 0;
  OneRound one(row);
  int step = 0;
  stream.run(one.task(1, 1), [&](const Batch& batch, RandomStream& noise) {
    const double loss = layers.model->loss_and_gradient(row, batch, noise, gradient);
    const bool first = step < 2 || (step >= 5 && step < 7);
    for (std::size_t i = first ? 0 : kHead; i < (first ? kHead : row.size()); ++i) {
      velocity[i] = 0.5F * velocity[i] + gradient[i];
      row[i] -= 0.1F * velocity[i];
    }
    ++step;
    lost += loss;
    return loss;
  });
  EXPECT_EQ(step, 9);
  EXPECT_NEAR(found.outcome.loss, lost / 9, 1e-6);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(found.row[i], row[i], 1e-6) << i;
}

// Where the second layer is zero the first one has no gradient: its phase moves nothing, and the
// next one has the mini-batches behind it.
TEST(Phases, ThatMoveNothingPassMiniBatchesBy) {
  const Layers layers;
  Row start = layers.theta;
  std::fill(start.begin() + kHead, start.end() - 3, 0.0F);
  ClientOptions options{{.steps = 1, .batch = 4}, {.lr = 0.1}};
  options.phases = LocalPhases::parse("fc1.* 3, all 4");
  const OneRound found = layers.train(options, 1, start);
  BatchStream stream(options, layers.federation);
  Row row = start;
  OneRound one(row);
  int step = 0;
  stream.run(one.task(1, 1), [&](const Batch& batch, RandomStream& noise) {
    if (step++ < 3) return 0.0;
    return layers.model->sgd_step(row, batch, noise, 0.1, 0);
  });
  EXPECT_EQ(found.row, row);
}

TEST(Alternate, MovesOneHalfARound) {
  const Layers layers;
  for (ClientOptions options : ways()) {
    options.alternate = "fc1.*, fc2.*";
    const Row odd = layers.train(options, 3).row, even = layers.train(options, 4).row;
    const auto head = layers.theta.begin() + kHead;
    EXPECT_FALSE(std::equal(layers.theta.begin(), head, odd.begin()));
    EXPECT_TRUE(std::equal(head, layers.theta.end(), odd.begin() + kHead));
    EXPECT_TRUE(std::equal(layers.theta.begin(), head, even.begin()));
    EXPECT_FALSE(std::equal(head, layers.theta.end(), even.begin() + kHead));
  }
}

// What is still has no share in the clipped norm: a step is as long as the clip.
TEST(Alternate, ClipsWhatMoves) {
  const Layers layers;
  ClientOptions options{{.steps = 1, .batch = 0}, {.lr = 1, .clip = 1e-3}};
  for (const char* part : {"fc1.*", "fc2.*"}) {
    options.alternate = part;
    const Row row = layers.train(options).row;
    double squared = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      squared += std::pow(static_cast<double>(row[i]) - layers.theta[i], 2);
    }
    EXPECT_NEAR(std::sqrt(squared), 1e-3, 1e-6) << part;
  }
}

}  // namespace
}  // namespace hanse
