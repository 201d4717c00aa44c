// Options of the online protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hanse {

struct OnlineOptions {
  std::string kind = "fed-exp";
  int64_t peers = 0;                         // K nodes mixed in a round; 0: all
  std::optional<double> eta;                 // > 0; none: sqrt(8 log N / horizon)
  double loss_scale = 0;                     // losses are divided by it and clipped at 1; 0: none
  std::string variant = "paper";             // paper | corrected
  std::string mixing = "at-once";            // fed-exp: at-once | in-place
  double lambda = 0.5;                       // omni-fedge
  double c = 0;                              // of Fed-Exp's test; 0: off
  std::string order = "train-then-predict";  // | predict-then-train
  std::string gamma = "sgd";                 // sgd | ridge-batch | ridge-all
  int64_t steps = 1;                         // sgd: steps on a batch
  int64_t batch = 0;                         // sgd: samples of a step; 0: the whole batch
  double lr = 0.1;                           // sgd
  double ridge = 1;                          // ridge-*
  int64_t horizon = 0;                       // batches a stream; 0: run.rounds at the first start
  int64_t passes = 1;                        // over a stream, each in another order
  std::string drift = "none";                // none | labels | swap
};

}  // namespace hanse
