#include <filesystem>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/kinds/families.hpp"
#include "keyed_rows.hpp"

namespace hanse {

namespace {

void path_key(KindKeys& keys, DataOptions& o, const std::string& help) {
  keys.add("data.path", o.path, help);
}

void text_keys(KindKeys& keys, DataOptions& o) {
  keys.add("data.window", o.window, at_least(1), "tokens of a text that predict the next one");
  keys.add("data.stride", o.stride, at_least(1),
           "tokens of a text from one that is predicted to the next");
  keys.add("data.max-samples", o.max_samples, at_least(0),
           "most samples that a client makes of its training and of its test texts, the first "
           "ones; 0: all");
}

void characters_key(KindKeys& keys, DataOptions& o) {
  keys.add_choice("data.vocabulary", o.vocabulary, {"ascii", "data"},
                  "characters: a fixed list of 97, or those the texts have");
}

void idx_keys(KindKeys& keys, Job& job) { path_key(keys, job.data, "folder"); }

void csv_keys(KindKeys& keys, Job& job) {
  DataOptions& o = job.data;
  path_key(keys, o, "file");
  keys.add("data.label-column", o.label_column, "column of the label; empty: the last");
  keys.add("data.client-column", o.client_column,
           "column that names the client, for federation.partition = by-column; empty: none");
  keys.add_choice("data.task", o.task, {"classification", "regression"},
                  "what the label column holds");
}

void tff_keys(KindKeys& keys, Job& job) {
  DataOptions& o = job.data;
  path_key(keys, o, "file");
  keys.add("data.test-path", o.test_path,
           "file of the clients' test samples; empty: data.test-fraction splits the others");
  keys.add("data.label-column", o.label_column, "dataset of the labels");
  keys.add("data.feature-column", o.feature_column,
           "dataset of the features; empty: pixels, image, snippets, tokens or title");
  text_keys(keys, o);
  characters_key(keys, o);
  keys.add("data.vocabulary-size", o.vocabulary_size, between(1, 1 << 24),
           "words (Stack Overflow): so many of the most frequent ones");
}

void leaf_keys(KindKeys& keys, Job& job) {
  path_key(keys, job.data, "folder");
  characters_key(keys, job.data);
  keys.add("data.shape", job.data.shape, at_least(1),
           "shape of one sample, of those with so many numbers");
}

// Of roles in a play.
void min_samples_key(KindKeys& keys, Job& job) {
  keys.add("federation.min-samples", job.federation.min_samples, at_least(1),
           "samples of the smallest role; smaller ones are left out");
}

void role_keys(KindKeys& keys, Job& job) {
  path_key(keys, job.data, "file");
  text_keys(keys, job.data);
  characters_key(keys, job.data);
  min_samples_key(keys, job);
}

void hanse_keys(KindKeys& keys, Job& job) { path_key(keys, job.data, "file"); }

void samples_key(KindKeys& keys, Job& job, const std::string& help) {
  keys.add("federation.samples", job.federation.samples, at_least(1), help);
}

void random_keys(KindKeys& keys, Job& job) {
  DataOptions& o = job.data;
  keys.add("data.shape", o.shape, at_least(1), "shape of one sample");
  keys.add("data.classes", o.classes, at_least(0), "classes; 0: regression");
  keys.add("data.tokens", o.tokens, between(0, 1 << 24),
           "make samples of whole numbers below it; 0: of numbers in [0, 1]");
  samples_key(keys, job, "mean samples a client");
}

void synthetic_keys(KindKeys& keys, Job& job) {
  DataOptions& o = job.data;
  keys.add_choice("data.design", o.design, {"dense", "support"},
                  "features: all coordinates, or one of each client");
  keys.add("data.dimension", o.dimension, at_least(1), "features of a sample");
  keys.add("data.sigma", o.sigma, at_least(0),
           "how unlike the clients are (dense): deviation of the logarithm of their scale");
  keys.add("data.kappa", o.kappa, at_least(1), "condition number of the features' scale (dense)");
  keys.add_choice("data.scale", o.scale, {"covariance", "deviation"},
                  "what the scale of the features is (dense): the paper's reading, or its authors' "
                  "code's");
  keys.add("data.nu", o.nu, between(0, 10),
           "deviation of the logarithm of the true coefficients (support)");
  samples_key(keys, job, "samples of a client");
}

void check_random(const Job& job) {
  if (!job.data.shape.empty()) return;
  throw InvalidArgument("a sample needs a shape", "data.shape", "for example 1,28,28");
}

constexpr KindInJob kKinds[] = {{"idx", idx_keys},
                                {"csv", csv_keys},
                                {"tff", tff_keys},
                                {"leaf", leaf_keys},
                                {"text", role_keys},
                                {"hanse", hanse_keys},
                                {"random", random_keys, check_random},
                                {"synthetic-regression", synthetic_keys}};

void check_files(const DataOptions& data) {
  const auto kinds = data_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const auto& entry) { return entry.name == data.kind; });
  if (kind != kinds.end() && kind->reads_a_file && !std::filesystem::exists(data.path)) {
    throw InvalidArgument(
        fmt::format("no such file or folder: {}", data.path), "data.path",
        "scripts/setup installs Fashion-MNIST; data/README.md describes the formats");
  }
  if (!data.test_path.empty() && !std::filesystem::exists(data.test_path)) {
    throw InvalidArgument(fmt::format("no such file: {}", data.test_path), "data.test-path");
  }
}

void check_chosen(const KindFamily& family, const std::string& name, const Job& job) {
  for (const KindRow& row : family.rows) {
    if (row.name == name && row.check) row.check(job);
  }
}

}  // namespace

KindFamily data_family() {
  return {.name = "data",
          .key = "data.kind",
          .help = "source of the samples",
          .choice = [](Job& job) -> std::string& { return job.data.kind; },
          .rows = keyed_rows(data_kinds(), kKinds)};
}

void check_data(const Job& job) {
  check_files(job.data);
  check_chosen(data_family(), job.data.kind, job);
  check_chosen(partition_family(), job.federation.partition, job);
}

}  // namespace hanse
