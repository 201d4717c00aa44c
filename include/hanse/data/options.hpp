// Options of the samples: [data] of a job.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hanse {

// The source's own test samples join the others, or evaluate the shared model alone and belong to
// no client.
enum class OwnTests { kOwn, kCommon };
constexpr auto choices_of(OwnTests) { return std::array{"own", "common"}; }

// By means of each client's training samples, or of all clients': partition.hpp.
enum class Standardize { kNone, kClient, kAll };
constexpr auto choices_of(Standardize) { return std::array{"none", "client", "all"}; }

// A table's missing values: refused; filled with a statistic of training samples; filled with the
// mean and marked (numbers), or a category of their own; or their rows are left out; or they stay
// missing, for statistics.
enum class MissingValues { kRefuse, kMean, kMedian, kCategory, kDrop, kKeep };
constexpr auto choices_of(MissingValues) {
  return std::array{"refuse", "mean", "median", "category", "drop", "keep"};
}

// A table's columns of text: refused, or a column of 0 and 1 for each category.
enum class Categories { kRefuse, kOneHot };
constexpr auto choices_of(Categories) { return std::array{"refuse", "one-hot"}; }

// A fixed list of 97 characters, or the characters of the texts: data/clients.md.
enum class Characters { kAscii, kData };
constexpr auto choices_of(Characters) { return std::array{"ascii", "data"}; }

// A sample predicts the token behind its window, or behind every token of it.
enum class TextTargets { kLast, kEvery };
constexpr auto choices_of(TextTargets) { return std::array{"last", "every"}; }

// Features fill all coordinates, or one coordinate of each client.
enum class Design { kDense, kSupport };
constexpr auto choices_of(Design) { return std::array{"dense", "support"}; }

// s_m Sigma is a covariance, or a deviation.
enum class FeatureScale { kCovariance, kDeviation };
constexpr auto choices_of(FeatureScale) { return std::array{"covariance", "deviation"}; }

// Clients kept out of training: so many, or those of these names.
struct HeldOut {
  HeldOut(double so_many = 0) : number(so_many) {}

  // "0.2", "5", or "hospital-03,name:7", where "name:" is in front of a name that is a number, and
  // a name with a comma stands in quotes.
  // Throws InvalidArgument: neither, or a word that belongs to sweeps ("each").
  static HeldOut parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
  bool is_none() const { return names.empty() && number == 0; }

  double number;                   // a share below 1, or a whole number; unless there are names
  std::vector<std::string> names;  // where clients have none, their numbers
};

struct DataOptions {
  std::string kind = "idx";                                // a name of data_kinds()
  std::string path = "/usr/share/datasets/fashion-mnist";  // file, or folder (idx, leaf, images)
  std::vector<int64_t> labels;  // classes to keep, renumbered in this order; empty: all
  // A share of every client's samples, below 1, or a whole number; 0: evaluate on training data.
  double test_fraction = 0.2;
  // A share of the rest, below 1, or a whole number; 0: no validation samples.
  double validation_fraction = 0;
  OwnTests test = OwnTests::kOwn;  // idx, images, cifar; the key is evaluate.test
  // csv: the column's name, or several names, separated by commas; empty: the last column
  // tff: name of the labels' dataset; cifar: coarse_label
  std::string label_column = "label";
  std::string client_column;            // csv: name of the column; empty: none
  std::string task = "classification";  // csv, npz: classification | regression; npz: sequence
  std::vector<int64_t> shape;           // of one sample; empty: as the data have it
  int64_t classes = 10;                 // random: classes
  int64_t tokens = 0;                   // random: values are whole numbers below it; 0: in [0, 1]
  Standardize standardize = Standardize::kNone;    // csv
  MissingValues missing = MissingValues::kRefuse;  // csv
  Categories categories = Categories::kRefuse;     // csv: columns of text
  std::string category_columns;       // csv: names of columns that are categories, numbers or not
  std::string drop_columns;           // csv: names of columns that are left out
  std::optional<double> label_above;  // csv: the label is 1 above it, else 0
  // csv, no key: categories stay numbers of levels and missing values NaN, for statistics.
  bool as_is = false;
  // text, no keys: what a run's record has of its own words (FeatureRecord::vocabulary) and tags,
  // for new data.
  std::vector<std::string> words = {}, tag_names = {};
  std::string normalize = "none";  // images: none | all | numbers, see src/data/normalize.hpp

  std::string test_path;       // tff: file of the clients' test samples; empty: none
  std::string feature_column;  // tff: dataset of the features; empty: the layout's
  Characters vocabulary = Characters::kAscii;  // characters
  int64_t vocabulary_size = 10000;             // words: the most frequent ones; at least 1
  int64_t window = 80;                         // text: tokens that predict the next one; at least 1
  int64_t stride = 0;  // text: from the last target of a sample to the next one's; 0: 1, or window
  TextTargets targets = TextTargets::kLast;  // text
  int64_t tags = 500;                        // tff: the most frequent ones
  int64_t max_samples = 0;  // text: a client's first ones, in training and in test; 0: all

  // synthetic-regression, see make_synthetic_regression.
  Design design = Design::kDense;
  int64_t dimension = 10;  // d, features of a sample; at least 1
  double sigma = 3.0;      // dense: deviation of log s_m, 0: clients alike; at least 0
  double kappa = 25.0;     // dense: condition number of Sigma; at least 1
  FeatureScale scale = FeatureScale::kCovariance;  // dense
  double nu = 1.0;                                 // support: deviation of log w*_j; in [0, 10]
  // synthetic-classification, see make_synthetic_classification.
  double alpha = 1;   // deviation of the clients' models; at least 0
  double beta = 1;    // deviation of the clients' features; at least 0
  int64_t seed = 0;   // for partition, split and made-up samples; 0: run.seed
  bool rows = false;  // keep the samples' places in the source: evaluate.scores
};

struct FederationOptions {
  int64_t clients = 100;
  // auto|iid|dirichlet|shards|sizes|power-law|by-label|labels|class-shares|similarity|by-column;
  // auto: by-column if the data have clients of their own, else iid
  std::string partition = "auto";
  int64_t samples = 60;           // made up data: a client's, train and test (random: mean)
  double alpha = 0.5;             // dirichlet: concentration
  int64_t min_samples = 2;        // dirichlet, power-law: smallest client; text: smallest role kept
  int64_t labels_per_client = 2;  // shards: shards a client; by-label: classes a group; labels:
                                  // classes a client
  std::vector<int64_t> sizes = {1, 10, 30, 100};                    // sizes: possible sizes
  std::vector<double> size_probabilities = {0.65, 0.2, 0.1, 0.05};  // sizes: of each size
  double share = 0.5;  // class-shares: largest share of its part of a class that a client keeps
  double power = 2.0;  // power-law: exponent of the density of sizes, above 1
  double similarity = 0.5;     // similarity: share of the samples that is iid
  HeldOut held_out;            // clients kept out of training
  HeldOut validation_clients;  // likewise, of the other clients, for validation
};

}  // namespace hanse
