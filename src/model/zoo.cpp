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

std::unique_ptr<Model> make_kind(const ModelOptions& options,
                                 const std::vector<int64_t>& sample_shape, LossKind loss,
                                 int64_t outputs) {
  int64_t inputs = 1;
  for (const int64_t extent : sample_shape) inputs *= extent;
  if (options.kind == "linear") return make_dense_model({inputs, outputs}, loss, options.bias);
  if (options.kind == "mlp") {
    check_extents(options.hidden, "the widths of the hidden layers", "model.hidden");
    std::vector<int64_t> widths = {inputs};
    widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
    widths.push_back(outputs);
    return make_dense_model(widths, loss);
  }
  if (options.kind == "lstm") return make_lstm(options, sample_shape, loss, outputs);
  if (options.kind == "transformer") return make_transformer(options, sample_shape, loss, outputs);
  if (options.kind == "resnet18") return make_resnet18(options, sample_shape, loss, outputs);
  if (options.kind == "torchscript") {
    if (options.init == "uniform") {
      throw InvalidArgument("a torchscript model starts from its file", "model.init",
                            "auto (the file's values) or zeros");
    }
    return make_torchscript(options.path, sample_shape, loss, outputs);
  }
  return make_network(options.kind, sample_shape, loss, outputs);
}

void check_kind(const std::string& name) {
  std::string known;
  for (const ModelKind& kind : model_kinds()) {
    if (kind.name == name) return;
    known += (known.empty() ? "" : ", ") + kind.name;
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
  static const std::vector<ModelKind> kinds = {
      {"linear", "one dense layer: logistic or linear regression"},
      {"mlp", "dense layers with ReLU, widths model.hidden"},
      {"cnn-leaf", "LEAF's FEMNIST network: two 5x5 convolutions, 2048 hidden units"},
      {"cnn-cifar",
       "pfl-research's CIFAR network: two 3x3 convolutions, dropout, 128 hidden units"},
      {"lenet", "LeNet-5 with ReLU and max pooling"},
      {"resnet18", "ResNet-18 with group norm, for small images"},
      {"lstm", "token embedding, LSTM layers, one dense layer on the last output"},
      {"transformer", "token embedding, encoder layers, one dense layer on their mean"},
      {"torchscript", "a network of your own, model.path, saved by torch.jit"},
  };
  return kinds;
}

std::unique_ptr<Model> make_model(const ModelOptions& options,
                                  const std::vector<int64_t>& sample_shape, int64_t classes) {
  check_kind(options.kind);
  check_extents(sample_shape, "the sides of a sample", "data.shape");
  const LossKind loss = loss_kind(options.loss, classes);
  const Initialization start = initialization(options.init);
  choose_convolutions();
  auto model = make_kind(options, sample_shape, loss, loss_outputs(loss, classes));
  model->set_initialization(start);
  return model;
}

}  // namespace hanse
