#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/torch_library.hpp"
#include "makers.hpp"
#include "network_model.hpp"
#include "network_spec.hpp"

namespace hanse {

namespace {

void check_mlp(const ModelOptions& options) {
  if (!options.hidden.empty()) return;
  throw InvalidArgument("an mlp needs a hidden layer", "model.hidden", "for example 200");
}

void check_graph(const ModelOptions& options) {
  if (std::filesystem::exists(options.path)) return;
  throw InvalidArgument(missing_text(options.path), "model.path",
                        "hanse.export(module, sample, path) in Python writes one");
}

struct ModelTraits {
  NetworkSpec (*spec)(const ModelOptions& options,
                      const std::vector<int64_t>& sample_shape) = nullptr;  // of network_spec()
  bool has_file = false;                                                    // model.path
  bool labels_positions = false;                                            // of sequences
  bool rounds_factors = false;   // in bfloat16, and LibTorch multiplies them in float32
  bool is_linear = false;        // one dense layer
  bool narrow_adapters = false;  // adapters go with bfloat16
};

struct ModelKind : KindRow<ModelOptions> {
  std::unique_ptr<Model> (*make)(const ModelCase& c);  // null: LibTorch's library makes it
  ModelTraits traits;
};

using Options = ModelOptions;
const auto key = keys_of<Options>("model");

// Sizes of tensors: products of two are integers, and ParameterLayout tests those of all.
const Range kExtent = between(1, std::numeric_limits<int32_t>::max());
const Range kLayers = between(1, 65536);

// A key of lstm and transformer that has another default in each.
Keys<Options> sized(const std::string& name, int64_t Options::*field, int64_t value,
                    const std::string& help, const Range& range = kExtent) {
  return with_default(key(name, field, or_auto(range), help), field, value);
}

const Keys<Options> kVocabulary = key("vocabulary", &Options::vocabulary, or_auto(kExtent),
                                      "tokens that samples are made of; auto: as many as classes");
const Keys<Options> kDropout = key("dropout", &Options::dropout, from_below(0, 1),
                                   "share dropped behind each layer in training");

const Keys<Options> kPath =
    key("path", &Options::path,
        "file of the network, which hanse.export(module, sample, path) in Python writes");

const std::vector<ModelKind> kModels = {
    {{"linear", "one dense layer: logistic or linear regression",
      key("bias", &Options::bias, "a bias beside the weights")},
     make_linear,
     {.spec = linear_spec, .is_linear = true}},
    {{"mlp", "dense layers with ReLU, widths model.hidden",
      key("hidden", &Options::hidden, kExtent, "widths of the hidden layers"), check_mlp},
     make_mlp,
     {.spec = mlp_spec}},
    {{"cnn-leaf", "LEAF's FEMNIST network: two 5x5 convolutions, 2048 hidden units"},
     make_convolutional,
     {.spec = leaf_spec}},
    {{"cnn-cifar", "pfl-research's CIFAR network: two 3x3 convolutions, dropout, 128 hidden units"},
     make_convolutional,
     {.spec = cifar_spec}},
    {{"cnn-mcmahan",
      "McMahan et al.'s MNIST network (2017): two 5x5 convolutions, 512 hidden units"},
     make_convolutional,
     {.spec = mcmahan_spec}},
    {{"cnn-byzfl", "ByzFL's MNIST network: two 5x5 convolutions, 500 hidden units"},
     make_convolutional,
     {.spec = byzfl_spec}},
    {{"lenet", "LeNet-5 with ReLU and max pooling"}, make_convolutional, {.spec = lenet_spec}},
    {{"resnet18",
      "ResNet-18 with group norm, for small images",
      {key("channels", &Options::channels, kExtent,
           "channels of the first stage; doubled from stage to stage"),
       key("groups", &Options::groups, kExtent, "groups of group norm; divide model.channels")}},
     make_resnet18,
     {}},
    {{"lstm",
      "token embedding, LSTM layers, one dense layer on the last output",
      {kVocabulary, sized("embedding", &Options::embedding, 8, "values a token; auto: 8"),
       sized("units", &Options::units, 256, "units of a layer; auto: 256"),
       sized("layers", &Options::layers, 2, "LSTM layers; auto: 2", kLayers), kDropout}},
     make_lstm,
     {.labels_positions = true}},
    {{"transformer",
      "token embedding, encoder layers, one dense layer on their mean",
      {kVocabulary, sized("embedding", &Options::embedding, 64, "values a token; auto: 64"),
       sized("units", &Options::units, 0, "units of the feed-forward layer; auto: 4 x embedding"),
       sized("layers", &Options::layers, 1, "encoder layers; auto: 1", kLayers),
       key("heads", &Options::heads, kExtent, "attention heads; divide model.embedding"),
       kDropout}},
     make_transformer,
     {.labels_positions = true, .narrow_adapters = true}},
    {{"graph", "a network of your own, model.path, as data: operators and tensors", kPath,
      check_graph},
     nullptr,
     {.has_file = true, .labels_positions = true, .rounds_factors = true, .narrow_adapters = true}},
};

}  // namespace

void refuse_shape(const ModelCase& c, const std::string& needed) {
  throw InvalidArgument(fmt::format("{} needs samples of shape {}, not {{{}}}", c.options.kind,
                                    needed, fmt::join(c.sample_shape, ", ")),
                        "model.kind");
}

void check_extents(const std::vector<int64_t>& extents, const std::string& what,
                   const std::string& key) {
  const bool positive =
      std::all_of(extents.begin(), extents.end(), [](int64_t extent) { return extent >= 1; });
  if (extents.empty() || !positive) throw InvalidArgument(what + " must be positive", key);
}

namespace {

// The key of the largest size: those that a kind does not read are left at small ones.
std::string largest_size(const ModelOptions& options, bool has_file,
                         const std::vector<int64_t>& sample_shape) {
  if (has_file) return "model.path";
  std::pair<const char*, int64_t> largest{"data.shape", size_of(sample_shape)};
  const auto look_at = [&](const char* name, int64_t size) {
    if (size >= largest.second) largest = {name, size};
  };
  for (const int64_t width : options.hidden) look_at("model.hidden", width);
  look_at("model.vocabulary", options.vocabulary);
  look_at("model.embedding", options.embedding);
  look_at("model.units", options.units);
  look_at("model.layers", options.layers);
  look_at("model.channels", options.channels);
  return largest.first;
}

}  // namespace

std::vector<KindRow<ModelOptions>> model_kinds() {
  std::vector<KindRow<ModelOptions>> rows;
  for (const ModelKind& kind : kModels) rows.push_back(kind);
  return rows;
}

bool rounds_factors(const std::string& kind) {
  return find_kind(kModels, "model.kind", kind).traits.rounds_factors;
}

std::vector<FormerChoice> former_model_kinds() {
  return {{"torchscript",
           "models are no TorchScript any more: hanse.export(\"net.pt\", sample, \"net.graph\") in "
           "Python makes a graph of the file, for model.kind = graph"}};
}

std::optional<NetworkSpec> network_spec(const ModelOptions& options,
                                        const std::vector<int64_t>& sample_shape) {
  const ModelKind& kind = find_kind(kModels, "model.kind", options.kind);
  if (!kind.traits.spec) return std::nullopt;
  return kind.traits.spec(options, sample_shape);
}

std::string model_file(const ModelOptions& options) {
  return find_kind(kModels, "model.kind", options.kind).traits.has_file ? options.path : "";
}

bool is_linear(const ModelOptions& options) {
  return find_kind(kModels, "model.kind", options.kind).traits.is_linear;
}

bool has_narrow_adapters(const std::string& kind) {
  return find_kind(kModels, "model.kind", kind).traits.narrow_adapters;
}

bool needs_torch(const std::string& kind) {
  return find_kind(kModels, "model.kind", kind).make == nullptr;
}

namespace {

// The model of a kind that needs LibTorch.
std::unique_ptr<Model> make_of_torch(const ModelCase& c) {
  return std::ranges::find(torch_library().models, c.options.kind, &TorchModel::kind)->make(c);
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const std::vector<int64_t>& sample_shape,
                                  const LabelForm& labels) {
  const ModelKind& kind = find_kind(kModels, "model.kind", options.kind);
  check_extents(sample_shape, "the sides of a sample", "data.shape");
  const ModelCase parts{options, sample_shape, make_loss(options.loss, labels)};
  if (labels.is_sequence() && !kind.traits.labels_positions) {
    throw InvalidArgument(fmt::format("a {} does not label the positions of a sequence, of which "
                                      "each has a class in these data",
                                      options.kind),
                          "model.kind", "lstm, transformer and graph do");
  }
  std::unique_ptr<Model> model;
  try {
    model = kind.make ? kind.make(parts) : make_of_torch(parts);
  } catch (const ModelTooLarge& error) {
    throw InvalidArgument(error.what(), largest_size(options, kind.traits.has_file, sample_shape),
                          "use a smaller one");
  }
  if (options.init == ModelInit::kZeros) model->start_from_zeros();
  return model;
}

void check_objective_labels(const LabelForm& labels) {
  if (!labels.is_sequence()) return;
  throw InvalidArgument("a loss of your own is of samples, and each position has a label here",
                        "client.objective", "leave it empty");
}

void train_for(Model& model, const std::string& path, const LabelForm& labels) {
  check_objective_labels(labels);
  auto& network = dynamic_cast<NetworkModel&>(model);
  network.minimise(torch_library().make_objective({.path = path,
                                                   .outputs = network.outputs(),
                                                   .labels = labels,
                                                   .n_trainable = model.layout().n_trainable()}));
}

}  // namespace hanse
