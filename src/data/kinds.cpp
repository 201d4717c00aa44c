#include "kinds.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "folder_files.hpp"
#include "hanse/base/error.hpp"
#include "partition/split.hpp"

namespace hanse {

namespace {

int64_t all_samples(int64_t clients, int64_t samples_per_client) {
  int64_t samples = 0;
  if (__builtin_mul_overflow(clients, samples_per_client, &samples)) {
    throw InvalidArgument("too many random samples", "federation.samples", "have fewer");
  }
  return samples;
}

void check_shape(const DataOptions& data) {
  if (!data.shape.empty()) return;
  throw InvalidArgument("a sample needs a shape", "data.shape", "for example 1,28,28");
}

void check_picture_shape(const DataOptions& data) {
  const auto& shape = data.shape;
  if (shape.empty() || (shape.size() == 3 && (shape[0] == 1 || shape[0] == 3))) return;
  throw InvalidArgument(fmt::format("pictures cannot have the shape {}", shape), "data.shape",
                        "channels (1 or 3), height and width, for example 3,32,32");
}

using Options = DataOptions;
const auto key = keys_of<Options>("data");
const auto federation_key = keys_of<FederationOptions>("federation");

// Fashion-MNIST's folder by default, which scripts/setup installs, and nothing for other kinds.
const Keys<Options> kDigits = key("path", &Options::path, "folder");
Keys<Options> path_key(const std::string& what) {
  return with_default(key("path", &Options::path, what), &Options::path, std::string());
}
const Keys<Options> kFile = path_key("file");
const Keys<Options> kFolder = path_key("folder");
const Keys<Options> kTask =
    key.choice("task", &Options::task, {"classification", "regression"}, "what the labels are");
const Keys<Options> kArrayTask =
    key.choice("task", &Options::task, {"classification", "regression", "sequence"},
               "what the labels are; sequence: a class for each position of a sample");
const Keys<Options> kTestSet =
    keys_of<Options>("evaluate")("test", &Options::test,
                                 "test samples that the data have: pooled with the "
                                 "others (own), or of no client, to evaluate the shared "
                                 "model (common)");
const Keys<Options> kTexts{
    key("window", &Options::window, at_least(1), "tokens of a text that predict the next one"),
    key("stride", &Options::stride, or_auto(at_least(1)),
        "tokens of a text from the last one that a sample predicts to that of the next sample; "
        "auto: 1, with data.targets = every the window"),
    key("targets", &Options::targets,
        "what a sample predicts: the token behind its window, or behind every token of it"),
    key("max-samples", &Options::max_samples, at_least(0),
        "most samples that a client makes of its training and of its test texts, the first "
        "ones; 0: all")};
const Keys<Options> kCharacters = key("vocabulary", &Options::vocabulary,
                                      "characters: a fixed list of 97, or those the texts have");

const Keys<Options> kTable{
    key("missing", &Options::missing,
        "missing values of features: refuse them; fill them with the mean or median of the samples "
        "that are trained on (data.standardize = client: of the client's own); category: one of "
        "its own, numbers the mean and a column that marks them; drop: leave the rows out; keep: "
        "they "
        "stay missing, for run.protocol = statistics"),
    key("categories", &Options::categories,
        "columns of text: refuse them; one-hot: a column of 0 and 1 for each text that the clients "
        "in training have"),
    key("category-columns", &Options::category_columns,
        "columns whose numbers are categories, too, separated by commas"),
    key("drop-columns", &Options::drop_columns, "columns that are left out, separated by commas"),
    key("label-above", &Options::label_above, "none",
        "make two classes of a label that is a number: 1 above this one, else 0")};

// data.shape for kinds whose samples are mostly MNIST's.
Keys<Options> image_key(const std::string& help) {
  return with_default(key("shape", &Options::shape, at_least(1), help), &Options::shape,
                      std::vector<int64_t>{1, 28, 28});
}

Keys<FederationOptions> samples_key(const std::string& help) {
  return federation_key("samples", &FederationOptions::samples, at_least(1), help);
}

const std::vector<DataKind> kDataKinds = {
    {{{"idx", "MNIST's format, plain or gzip", {kDigits, kTestSet}}},
     {},
     [](const DataOptions& data, int64_t, int64_t, uint64_t) {
       return read_idx_folder(data.path);
     }},
    {{{"images",
       "PNG and JPEG, a folder a class, as torchvision's ImageFolder",
       {kFolder, kTestSet,
        key("shape", &Options::shape, at_least(1),
            "channels (1 grey, 3 colour), height and width, to which pictures are scaled; empty: "
            "as they are, all alike")},
       check_picture_shape}},
     {},
     [](const DataOptions& data, int64_t, int64_t, uint64_t) {
       return read_images(data.path, data.shape);
     }},
    {{{"cifar",
       "the binary files of CIFAR-10 and CIFAR-100",
       {kFolder, kTestSet,
        key("label-column", &Options::label_column, "label, or coarse_label (CIFAR-100)")}}},
     {},
     [](const DataOptions& data, int64_t, int64_t, uint64_t) {
       return read_cifar(data.path, data.label_column);
     }},
    {{{"npz",
       "NumPy's arrays x, y and, where clients are given, client",
       {kFile, kArrayTask,
        key("shape", &Options::shape, at_least(1),
            "shape of one sample, 2,128 for signals of two channels; empty: as x has it, where "
            "[n, h, w] are grey images")}}},
     {},
     [](const DataOptions& data, int64_t, int64_t, uint64_t) {
       return read_npz(data.path, data.task, data.shape);
     }},
    {{{"csv",
       "numeric columns, a label column, a client column",
       {kFile,
        key("label-column", &Options::label_column,
            "column of the label, or columns of several, separated by commas; empty: the last"),
        key("client-column", &Options::client_column,
            "column that names the client, for federation.partition = by-column; empty: none"),
        key("shape", &Options::shape, at_least(1),
            "shape that the feature columns have together, 1,28,28 for images; empty: a row of "
            "numbers"),
        kTable, kTask}}},
     {.has_star = true},
     [](const DataOptions& data, int64_t, int64_t, uint64_t) { return read_csv(data.path, data); }},
    {{{"tff",
       "TensorFlow Federated's HDF5: EMNIST, CIFAR-100, Shakespeare, Stack Overflow",
       {kFile,
        key("test-path", &Options::test_path,
            "file of the clients' test samples; empty: data.test-fraction splits the others"),
        key("label-column", &Options::label_column,
            "dataset of the labels; tags: of the tags of Stack Overflow's posts"),
        key("tags", &Options::tags, between(1, 1 << 20),
            "tags (Stack Overflow): so many of the most frequent ones"),
        key("feature-column", &Options::feature_column,
            "dataset of the features; empty: pixels, image, snippets, tokens or title"),
        kTexts, kCharacters,
        key("vocabulary-size", &Options::vocabulary_size, between(1, 1 << 24),
            "words (Stack Overflow): so many of the most frequent ones")}}},
     {.own_clients = true},
     nullptr,
     [](const DataOptions& data, const FederationOptions&, uint64_t seed) {
       return make_tff_source(data, seed);
     }},
    {{{"leaf",
       "LEAF's JSON folders: FEMNIST, Shakespeare, Synthetic; FLUTE's files",
       {kFolder, kCharacters, image_key("shape of one sample, of those with so many numbers")}}},
     {.own_clients = true},
     nullptr,
     [](const DataOptions& data, const FederationOptions&, uint64_t seed) {
       return make_leaf_source(data, seed);
     }},
    {{{"text",
       "what each speaking role of a play says, to predict the next character",
       {kFile, kTexts, kCharacters}},
      federation_key("min-samples", &FederationOptions::min_samples, at_least(1),
                     "samples of the smallest role; smaller ones are left out")},
     {.own_clients = true},
     nullptr,
     [](const DataOptions& data, const FederationOptions& federation, uint64_t) {
       return make_role_source(data, federation.min_samples);
     }},
    {{{"hanse", "Hanse's HDF5, written by hanse convert: mapped, nothing is copied", kFile}},
     {.own_clients = true, .mapped = true}},
    {{{"random",
       "random images in the shape asked for, for benchmarks",
       {image_key("shape of one sample"),
        key("classes", &Options::classes, at_least(0), "classes; 0: regression"),
        key("tokens", &Options::tokens, between(0, 1 << 24),
            "make samples of whole numbers below it; 0: of numbers in [0, 1]")},
       check_shape},
      samples_key("mean samples a client")},
     {.reads_a_file = false},
     [](const DataOptions& data, int64_t clients, int64_t samples_per_client, uint64_t seed) {
       return make_random(data.shape, data.classes, all_samples(clients, samples_per_client), seed,
                          data.tokens);
     }},
    {{{"synthetic-regression",
       "linear regression on clients of unequal scale (Zhao et al. 2025)",
       {key("design", &Options::design, "features: all coordinates, or one of each client"),
        key("dimension", &Options::dimension, at_least(1), "features of a sample"),
        key("sigma", &Options::sigma, at_least(0),
            "how unlike the clients are (dense): deviation of the logarithm of their scale"),
        key("kappa", &Options::kappa, at_least(1),
            "condition number of the features' scale (dense)"),
        key("scale", &Options::scale,
            "what the scale of the features is (dense): the paper's reading, or its "
            "authors' code's"),
        key("nu", &Options::nu, between(0, 10),
            "deviation of the logarithm of the true coefficients (support)")}},
      samples_key("samples of a client")},
     {.reads_a_file = false, .own_clients = true},
     make_synthetic_regression},
    {{{"synthetic-classification",
       "synthetic(alpha, beta): linear classifiers of clients that differ (Li et al. 2020)",
       {with_default(key("dimension", &Options::dimension, at_least(1), "features of a sample"),
                     &Options::dimension, 60),
        key("classes", &Options::classes, at_least(2), "classes"),
        key("alpha", &Options::alpha, at_least(0), "how unlike the clients' models are"),
        key("beta", &Options::beta, at_least(0), "how unlike the clients' features are")}},
      with_default(samples_key("samples of a client, beside exp(N(4, 2^2)) of its own"),
                   &FederationOptions::samples, 50)},
     {.reads_a_file = false, .own_clients = true},
     make_synthetic_classification},
};

}  // namespace

std::string folder_of_data(const DataOptions& data) {
  if (!find_data_kind(data.kind).traits.reads_a_file) return "";
  return std::filesystem::absolute(data.path + "/..").lexically_normal();
}

// A name that the system refuses is no file's.
bool data_exist(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(files_of_pattern(path).files.front().first, error);
}

const DataKind& find_data_kind(const std::string& name) {
  return find_kind(kDataKinds, "data.kind", name);
}

std::vector<DataKindRow> data_kinds() { return {kDataKinds.begin(), kDataKinds.end()}; }

// Throws InvalidArgument: the path has a star, and names no file by it.
void check_star(const DataOptions& data, const DataKind& kind) {
  std::error_code error;
  if (data.path.find('*') == data.path.npos || std::filesystem::exists(data.path, error)) return;
  if (!kind.traits.has_star) {
    throw InvalidArgument(
        fmt::format("data.kind = {} reads one file or folder, and takes no *", data.kind),
        "data.path", "data.kind = csv reads several files of one table");
  }
  if (data_exist(data.path)) return;
  throw InvalidArgument(
      fmt::format("no file is called so: {}", data.path), "data.path",
      "* stands for one character at least, and for no dot at the start of a name");
}

void check_data(const DataOptions& data, const FederationOptions& federation) {
  const DataKind& kind = find_data_kind(data.kind);
  if (kind.traits.reads_a_file && data.path.empty()) {
    throw InvalidArgument(fmt::format("data.kind = {} needs a file or a folder", data.kind),
                          "data.path", "--data.path=PATH says where it lies");
  }
  if (kind.traits.reads_a_file) check_star(data, kind);
  if (kind.traits.reads_a_file && !data_exist(data.path)) {
    throw InvalidArgument(
        missing_text(data.path, "file or folder"), "data.path",
        "--data.path=PATH says where it lies; scripts/setup installs Fashion-MNIST; data/README.md "
        "describes the formats");
  }
  if (!data.test_path.empty() && !data_exist(data.test_path)) {
    throw InvalidArgument(missing_text(data.test_path), "data.test-path",
                          "--data.test-path=PATH says where it lies");
  }
  check_part(data.test_fraction, kTestPart.key);
  check_part(data.validation_fraction, kValidationPart.key);
  if (kind.check) kind.check(data);
  const auto partition = find_kind(partition_kinds(), "federation.partition", federation.partition);
  if (partition.check) partition.check(federation);
}

Dataset read_dataset(const DataOptions& options, int64_t clients, int64_t samples_per_client,
                     uint64_t seed) {
  const DataKind& kind = find_data_kind(options.kind);
  if (!kind.read) {
    throw InvalidArgument(fmt::format("data.kind = {} keeps its own clients", options.kind),
                          "data.kind", "convert a csv, idx or made up data set instead");
  }
  Dataset dataset = kind.read(options, clients, samples_per_client, seed);
  return options.labels.empty() ? dataset : keep_labels(std::move(dataset), options.labels);
}

}  // namespace hanse
