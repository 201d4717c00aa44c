#include <filesystem>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/kinds/families.hpp"
#include "keyed_rows.hpp"

namespace hanse {

namespace {

void linear_keys(KindKeys& keys, Job& job) {
  keys.add("model.bias", job.model.bias, "a bias beside the weights");
}

void mlp_keys(KindKeys& keys, Job& job) {
  keys.add("model.hidden", job.model.hidden, at_least(1), "widths of the hidden layers");
}

// Of networks on tokens.
void vocabulary_key(KindKeys& keys, ModelOptions& o) {
  keys.add("model.vocabulary", o.vocabulary, at_least(0),
           "tokens that samples are made of; 0: as many as classes");
}

void dropout_key(KindKeys& keys, ModelOptions& o) {
  keys.add("model.dropout", o.dropout, from_below(0, 1),
           "share dropped behind each layer in training");
}

void lstm_keys(KindKeys& keys, Job& job) {
  ModelOptions& o = job.model;
  const KindDefault embedding(o.embedding, int64_t{8});
  const KindDefault units(o.units, int64_t{256});
  const KindDefault layers(o.layers, int64_t{2});
  vocabulary_key(keys, o);
  keys.add("model.embedding", o.embedding, at_least(0), "values a token; 0: 8");
  keys.add("model.units", o.units, at_least(0), "units of a layer; 0: 256");
  keys.add("model.layers", o.layers, at_least(0), "LSTM layers; 0: 2");
  dropout_key(keys, o);
}

void transformer_keys(KindKeys& keys, Job& job) {
  ModelOptions& o = job.model;
  const KindDefault embedding(o.embedding, int64_t{64});
  const KindDefault layers(o.layers, int64_t{1});
  vocabulary_key(keys, o);
  keys.add("model.embedding", o.embedding, at_least(0), "values a token; 0: 64");
  keys.add("model.units", o.units, at_least(0),
           "units of the feed-forward layer; 0: 4 x embedding");
  keys.add("model.layers", o.layers, at_least(0), "encoder layers; 0: 1");
  keys.add("model.heads", o.heads, at_least(1), "attention heads; divide model.embedding");
  dropout_key(keys, o);
}

void resnet_keys(KindKeys& keys, Job& job) {
  keys.add("model.channels", job.model.channels, at_least(1),
           "channels of the first stage; doubled from stage to stage");
  keys.add("model.groups", job.model.groups, at_least(1), "of group norm; divide model.channels");
}

void torchscript_keys(KindKeys& keys, Job& job) {
  keys.add("model.path", job.model.path,
           "file of the network, scripted or traced; scripts/export-model writes one");
}

void check_mlp(const Job& job) {
  if (!job.model.hidden.empty()) return;
  throw InvalidArgument("an mlp needs a hidden layer", "model.hidden", "for example 200");
}

void check_torchscript(const Job& job) {
  if (std::filesystem::exists(job.model.path)) return;
  throw InvalidArgument(fmt::format("no such file: '{}'", job.model.path), "model.path",
                        "scripts/export-model writes one");
}

constexpr KindInJob kKinds[] = {
    {"linear", linear_keys},           {"mlp", mlp_keys, check_mlp},
    {"resnet18", resnet_keys},         {"lstm", lstm_keys},
    {"transformer", transformer_keys}, {"torchscript", torchscript_keys, check_torchscript}};

}  // namespace

KindFamily model_family() {
  return {.name = "models",
          .key = "model.kind",
          .help = "network",
          .choice = [](Job& job) -> std::string& { return job.model.kind; },
          .rows = keyed_rows(model_kinds(), kKinds)};
}

std::string model_file(const ModelOptions& options) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const KindInJob& each) { return each.name == options.kind; });
  return kind != std::end(kKinds) && kind->keys == torchscript_keys ? options.path : "";
}

}  // namespace hanse
