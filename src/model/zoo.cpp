#include <algorithm>

#include "hanse/base/error.hpp"
#include "hanse/model/threads.hpp"
#include "makers.hpp"

namespace hanse {

namespace {

[[noreturn]] void unknown_value(const std::string& key, const std::string& value,
                                const std::string& known) {
  throw InvalidArgument("unknown " + key + " \"" + value + "\"", key, "known: " + known);
}

bool starts_from_zeros(const std::string& name) {
  if (name == "auto" || name == "uniform") return false;
  if (name == "zeros") return true;
  unknown_value("model.init", name, "auto, uniform, zeros");
}

struct Row {
  ModelKind kind;
  std::unique_ptr<Model> (*make)(const ModelCase& c);
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
    {{"torchscript", "a network of your own, model.path, saved by torch.jit"}, make_torchscript},
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

void check_extents(const std::vector<int64_t>& extents, const std::string& what,
                   const std::string& key) {
  const bool positive =
      std::all_of(extents.begin(), extents.end(), [](int64_t extent) { return extent >= 1; });
  if (extents.empty() || !positive) throw InvalidArgument(what + " must be positive", key);
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
  const ModelCase parts{options, sample_shape, make_loss(options.loss, classes)};
  const bool zeros = starts_from_zeros(options.init);
  choose_convolutions();
  auto model = row.make(parts);
  if (zeros) model->start_from_zeros();
  return model;
}

}  // namespace hanse
