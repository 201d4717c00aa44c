#include "zoo.hpp"

#include <algorithm>
#include <string>

#include "dense.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/threads.hpp"
#include "loss.hpp"
#include "networks.hpp"
#include "resnet.hpp"
#include "sequences.hpp"
#include "torchscript.hpp"

namespace hanse {

namespace {

[[noreturn]] void unknown_value(const std::string& key, const std::string& value,
                                const std::string& known) {
  throw InvalidArgument("unknown " + key + " \"" + value + "\"", key, "known: " + known);
}

Initialization initialization(const std::string& name) {
  if (name == "auto" || name == "uniform") return Initialization::kUniform;
  if (name == "zeros") return Initialization::kZeros;
  unknown_value("model.init", name, "auto, uniform, zeros");
}

void check_extents(const std::vector<int64_t>& extents, const std::string& what,
                   const std::string& key) {
  const bool positive =
      std::all_of(extents.begin(), extents.end(), [](int64_t extent) { return extent >= 1; });
  if (extents.empty() || !positive) throw InvalidArgument(what + " must be positive", key);
}

int64_t values_of(const std::vector<int64_t>& sample_shape) {
  int64_t values = 1;
  for (const int64_t extent : sample_shape) values *= extent;
  return values;
}

std::unique_ptr<Model> make_linear(const ModelOptions& options,
                                   const std::vector<int64_t>& sample_shape, LossKind loss,
                                   int64_t outputs) {
  return make_dense_model({values_of(sample_shape), outputs}, loss, options.bias);
}

std::unique_ptr<Model> make_mlp(const ModelOptions& options,
                                const std::vector<int64_t>& sample_shape, LossKind loss,
                                int64_t outputs) {
  check_extents(options.hidden, "the widths of the hidden layers", "model.hidden");
  std::vector<int64_t> widths = {values_of(sample_shape)};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(outputs);
  return make_dense_model(widths, loss);
}

std::unique_ptr<Model> make_convolutional(const ModelOptions& options,
                                          const std::vector<int64_t>& sample_shape, LossKind loss,
                                          int64_t outputs) {
  return make_network(options.kind, sample_shape, loss, outputs);
}

std::unique_ptr<Model> make_from_file(const ModelOptions& options,
                                      const std::vector<int64_t>& sample_shape, LossKind loss,
                                      int64_t outputs) {
  if (options.init == "uniform") {
    throw InvalidArgument("a torchscript model starts from its file", "model.init",
                          "auto (the file's values) or zeros");
  }
  return make_torchscript(options.path, sample_shape, loss, outputs);
}

struct Row {
  ModelKind kind;
  std::unique_ptr<Model> (*make)(const ModelOptions& options,
                                 const std::vector<int64_t>& sample_shape, LossKind loss,
                                 int64_t outputs);
};

const std::vector<Row> kRows = {
    {{"linear", "one dense layer: logistic or linear regression"}, make_linear},
    {{"mlp", "dense layers with ReLU, widths model.hidden"}, make_mlp},
    {{"cnn-leaf", "LEAF's FEMNIST network: two 5x5 convolutions, 2048 hidden units"},
     make_convolutional},
    {{"cnn-cifar", "pfl-research's CIFAR network: two 3x3 convolutions, dropout, 128 hidden units"},
     make_convolutional},
    {{"lenet", "LeNet-5 with ReLU and max pooling"}, make_convolutional},
    {{"resnet18", "ResNet-18 with group norm, for small images"}, make_resnet18},
    {{"lstm", "token embedding, LSTM layers, one dense layer on the last output"}, make_lstm},
    {{"transformer", "token embedding, encoder layers, one dense layer on their mean"},
     make_transformer},
    {{"torchscript", "a network of your own, model.path, saved by torch.jit"}, make_from_file},
};

const Row& find_row(const std::string& name) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.kind.name == name) return row;
    known += (known.empty() ? "" : ", ") + row.kind.name;
  }
  unknown_value("model.kind", name, known);
}

}  // namespace

LossKind loss_kind(const std::string& name, int64_t classes) {
  if (name == "cross-entropy") {
    if (classes >= 2) return LossKind::kCrossEntropy;
    throw InvalidArgument(
        "cross-entropy needs two classes or more, the data has " + std::to_string(classes),
        "model.loss", classes == 0 ? "squared-error is for regression" : "");
  }
  if (name == "binary-logistic") {
    if (classes == 2) return LossKind::kBinaryLogistic;
    throw InvalidArgument(
        "binary-logistic needs two classes, the data has " + std::to_string(classes), "model.loss");
  }
  if (name == "squared-error") {
    if (classes == 0) return LossKind::kSquaredError;
    throw InvalidArgument("squared-error needs regression targets, the data has " +
                              std::to_string(classes) + " classes",
                          "model.loss", "cross-entropy is for classes");
  }
  unknown_value("model.loss", name, "cross-entropy, binary-logistic, squared-error");
}

const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> kinds = [] {
    std::vector<ModelKind> all;
    for (const Row& row : kRows) all.push_back(row.kind);
    return all;
  }();
  return kinds;
}

std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const std::vector<int64_t>& sample_shape, int64_t classes) {
  const Row& row = find_row(options.kind);
  check_extents(sample_shape, "the sides of a sample", "data.shape");
  const LossKind loss = loss_kind(options.loss, classes);
  const Initialization start = initialization(options.init);
  choose_convolutions();
  auto model = row.make(options, sample_shape, loss, loss_outputs(loss, classes));
  model->set_initialization(start);
  return model;
}

}  // namespace hanse
