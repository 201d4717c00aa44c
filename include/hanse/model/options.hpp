// Options of the model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

// auto: +-1/sqrt(inputs of the unit), norms 1 and 0, for graph the file's values;
// uniform: as auto, but not for these.
enum class ModelInit { kAuto, kUniform, kZeros };
constexpr auto choices_of(ModelInit) { return std::array{"auto", "uniform", "zeros"}; }

// Products have such factors and float32 sums. tf32 is a format of GPUs: a Model, which is trained
// on CPUs, has float32 then.
enum class Precision { kFloat32, kBfloat16, kTf32 };
constexpr auto choices_of(Precision) { return std::array{"float32", "bfloat16", "tf32"}; }

// Where what a network computes of a sample before its first trained tensor is kept.
enum class FrozenKept { kAuto, kOff, kMemory, kFile };
constexpr auto choices_of(FrozenKept) { return std::array{"auto", "off", "memory", "file"}; }

// How frozen tensors lie in memory.
enum class BasePrecision { kFloat32, kBfloat16 };
constexpr auto choices_of(BasePrecision) { return std::array{"float32", "bfloat16"}; }

struct ModelOptions {
  std::string kind = "linear";  // of model_kinds()
  // Outputs are the classes (cross-entropy, at each position) or the values of a label (the
  // others). The loss of a sample is the mean over the values of its label. cross-entropy: -log
  // softmax(z)_y. binary-logistic: log(1 + exp(-s z)), s = +-1 for label 1/0, for two classes or
  // several labels. squared-error: (z - y)^2 / 2, for regression.
  std::string loss = "cross-entropy";
  std::vector<int64_t> hidden = {200};  // mlp: widths of the hidden layers
  ModelInit init = ModelInit::kAuto;
  Precision precision = Precision::kFloat32;
  BasePrecision base_precision = BasePrecision::kFloat32;
  bool bias = true;        // linear: z = W x + b, false: z = W x
  int64_t vocabulary = 0;  // lstm, transformer: tokens; 0: as many as classes
  int64_t embedding = 0;   // values a token; 0: 8 (lstm), 64 (transformer)
  int64_t units = 0;       // a layer's (lstm), 0: 256; feed-forward's (transformer), 0: 4 embedding
  int64_t layers = 0;      // 0: 2 (lstm), 1 (transformer)
  int64_t heads = 4;       // transformer: attention heads; divide the embedding
  double dropout = 0;      // lstm, transformer: share dropped behind each layer in training, [0, 1)
  int64_t channels = 64;   // resnet18: the first stage's; doubled from stage to stage
  int64_t groups = 2;      // resnet18: group norm's; divide the channels
  std::string path;        // graph: the model's file
  std::string start;       // file whose tensors the model starts from (warm_start.hpp); empty: none
  bool start_partial = false;  // the file has some tensors; the others start by `init`
  FrozenKept frozen_cache = FrozenKept::kAuto;
  std::string frozen_cache_path;  // folder of its files; empty: that of the data
  int64_t seed = 0;               // of the initial parameters; 0: run.seed
};

}  // namespace hanse
