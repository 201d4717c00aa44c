// A federation, model and local update small enough to follow by hand, and a trainer over them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "protocol/trainer_fixture.hpp"

namespace hanse {

inline constexpr int64_t kClients = 11;
inline constexpr int64_t kParams = 19;
inline constexpr uint64_t kSeed = 7;

// Eleven clients of unequal size with samples of three values and two classes.
Federation tiny_federation(Communicator& host, double test_fraction = 0.25, int64_t held_out = 0);

// Squared scores of linear features; evaluates at most five samples at once.
class TinyModel final : public Model {
 public:
  TinyModel();
  double loss_and_gradient(std::span<const float>, const Batch&, RandomStream&,
                           std::span<float>) override;
  double sgd_step(std::span<float>, const Batch&, RandomStream&, double, double) override {
    return 0;
  }
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results = {}) override;
  int64_t evaluation_rows() const override { return 5; }

  float broken_feature = 0;             // a sample that begins with it has the loss NaN; 0: none
  std::function<void()> at_evaluation;  // called by evaluate()
};

// Pulls the row towards a point of the client's own, with noise of the client's and round's own.
// With state, also by what the client remembers of earlier rounds.
class TinyUpdate final : public LocalUpdate {
 public:
  explicit TinyUpdate(bool stateful)
      : LocalUpdate(stateful ? std::vector<StateBlock>{{"numbers", 3}} : std::vector<StateBlock>{}),
        stateful_(stateful) {}
  ClientOutcome train(const ClientTask& task) override;

  // Called behind the training of a client; spoils it.
  std::function<void(const ClientTask&, ClientOutcome&)> spoil;

 private:
  bool stateful_;
};

// Coefficients in proportion to the losses; keeps what it was told.
class LossAggregator final : public Aggregator {
 public:
  AggregatorNeeds needs() const override { return {.losses = true}; }
  Mix mix(const RoundReport& report) override;
  double scale(const RoundReport&, std::span<const double>) const override { return step; }

  double step = 0.5;
  std::vector<int64_t> clients;
  std::vector<double> losses;
};

struct FedAvgOptions {
  ClientWeights weights = ClientWeights::kSamples;
  Estimator estimator = Estimator::kNormalized;
};

inline constexpr const char* kTinySamplers[] = {
    "uniform", "weighted", "full", "osmd",  "adaptive-osmd", "osmd-doubling",
    "optimal", "mabs",     "vrb",  "avare", "oort",          "power-of-choice"};

struct TinyJob {
  std::string sampler = "uniform";  // a name of kTinySamplers
  int64_t per_round = 4;
  bool replacement = true;
  std::function<Availability()> availability;  // null: everyone is always there
  bool regret = false;
  FedAvgOptions fedavg;
  bool by_losses = false;  // LossAggregator instead of fedavg
  bool stateful = false;
  bool own_models = false;
  bool apart = false;                     // every rank has a host of its own
  int64_t held_out = 0;                   // of the eleven clients
  std::vector<UpdateStage*> stages = {};  // of all ranks
  std::function<std::unique_ptr<RoundPart>(Communicator& comm)> round_part = {};
  ServerOptions server;
  CommOptions comm;
  std::function<std::unique_ptr<ClientSampler>()> own_sampler = {};
  std::function<std::unique_ptr<Aggregator>()> own_rule = {};
  std::function<std::unique_ptr<Turnout>()> turnout = {};
  std::function<std::unique_ptr<Attackers>()> attackers = {};
  ServerUpdate root = nullptr;
  std::function<std::unique_ptr<PrivateTraining>(Communicator& comm)> privacy = {};
  bool trace = false;
  bool timed = false;  // FederatedSettings's, as `async`
  AsyncOptions async = {};
  const Clock* clock = &kRunClock;
  double round_seconds = 0;
  bool participation = false;  // keep lines of participation.csv
};

// The learning ones with rates that move the probabilities within a few rounds.
std::unique_ptr<ClientSampler> make_tiny_sampler(const TinyJob& job, const Federation& federation);

struct TinyTraining : TrainerFixture<TinyModel, TinyUpdate> {
  TinyTraining(Communicator& all, const TinyJob& job);
};

// The model on rank 0 after so many rounds on `comm`; empty elsewhere. Collective.
std::vector<float> train_on(Communicator& comm, const TinyJob& job, int64_t rounds);
// The same over the threads of this process.
std::vector<float> train_threads(int ranks, const TinyJob& job, int64_t rounds);

}  // namespace hanse
