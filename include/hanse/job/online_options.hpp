// Options of the online protocol.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "hanse/protocol/stream_options.hpp"

namespace hanse {

// Fed-Exp's weights learn from losses of the peers' mixtures, or of the mixed estimates.
enum class ExpertLosses { kPaper, kCorrected };
constexpr auto choices_of(ExpertLosses) { return std::array{"paper", "corrected"}; }

// Mixtures of all nodes' estimates, or of the mixtures of the nodes before and the other estimates.
enum class MixingOrder { kAtOnce, kInPlace };
constexpr auto choices_of(MixingOrder) { return std::array{"at-once", "in-place"}; }

enum class OnlineOrder { kTrainThenPredict, kPredictThenTrain };
constexpr auto choices_of(OnlineOrder) {
  return std::array{"train-then-predict", "predict-then-train"};
}

// A node's own estimate.
enum class NodeEstimate { kSgd, kRidgeBatch, kRidgeAll };
constexpr auto choices_of(NodeEstimate) { return std::array{"sgd", "ridge-batch", "ridge-all"}; }

struct OnlineOptions {
  std::string kind = "fed-exp";
  int64_t peers = 0;          // K nodes mixed in a round; 0: all
  std::optional<double> eta;  // > 0; none: sqrt(8 log N / horizon)
  double loss_scale = 0;      // losses are divided by it and clipped at 1; 0: none
  ExpertLosses variant = ExpertLosses::kPaper;
  MixingOrder mixing = MixingOrder::kAtOnce;  // fed-exp
  double lambda = 0.5;                        // omni-fedge
  double c = 0;                               // for Fed-Exp's test; 0: off
  OnlineOrder order = OnlineOrder::kTrainThenPredict;
  NodeEstimate gamma = NodeEstimate::kSgd;
  int64_t steps = 1;    // sgd: steps on a batch
  int64_t batch = 0;    // sgd: samples of a step; 0: the whole batch
  double lr = 0.1;      // sgd
  double ridge = 1;     // ridge-*
  int64_t horizon = 0;  // batches a stream; 0: run.rounds at the first start
  int64_t passes = 1;   // over a stream, each in another order
  Drift drift = Drift::kNone;
};

}  // namespace hanse
