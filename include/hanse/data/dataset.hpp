// Samples as a source gives them, before clients get them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "hanse/data/feature_record.hpp"
#include "hanse/data/label_form.hpp"
#include "hanse/data/options.hpp"

namespace hanse {

// How a feature value is stored. Images stay bytes, and tokens take as few bytes as their
// vocabulary needs: a fourth or a half of the memory and of its traffic.
enum class Storage : int64_t {
  kByte = 1,     // value = byte / 255
  kFloat = 2,    // value as it is
  kToken = 3,    // value = byte: the number of a token, out of at most 256
  kToken16 = 4,  // value = two bytes: likewise, out of at most 65,536
};

constexpr int64_t storage_bytes(Storage storage) {
  return storage == Storage::kFloat ? 4 : storage == Storage::kToken16 ? 2 : 1;
}

// A half-open range of samples in the federation's order.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// One client's samples: training samples [begin, train_end), behind them its validation samples,
// then test samples [test_begin(), end).
struct ClientRanges {
  int64_t begin = 0;
  int64_t train_end = 0;
  int64_t end = 0;
  int64_t validation = 0;
  int64_t test_begin() const { return train_end + validation; }
};

// Where the arrays of all samples start in their memory, in bytes; -1: there is no such array.
struct SamplePlaces {
  int64_t features = -1;
  int64_t labels = -1;
  int64_t targets = -1;
  int64_t bytes = 0;  // of the memory
};

// A feature with numbers that float32 cannot hold, in float64: it is centred, then rounded.
struct PreciseFeature {
  int64_t feature = 0;         // its place among the values of a sample
  std::vector<double> values;  // [size]
};

// A column of a table that complete() makes whole (partition.hpp). Its feature is NaN where the
// value is missing; of categories it is the number of a level.
struct OpenColumn {
  int64_t feature = 0;  // its place among the values of a sample
  std::string name;
  std::vector<std::string> levels;  // sorted; empty: numbers
  int64_t missing = 0;              // samples
};

struct Dataset {
  std::vector<int64_t> shape;  // of one sample: {1, 28, 28} (channels, height, width) or {d}
  Storage storage = Storage::kFloat;
  // [size, product of shape], stored as `storage` says; see ScratchMemory
  std::pmr::vector<std::byte> features;
  std::vector<int32_t> labels;  // [size, label_values], see LabelForm; empty: there are targets
  std::vector<float> targets;   // [size, label_values]; empty: there are labels
  int64_t classes = 0;          // 0: there are targets
  int64_t label_values = 1;     // of one sample
  bool multi_label = false;
  std::vector<std::string> class_names;  // [scored classes]; empty: numbers name them
  FeatureRecord record;                  // what was done to the features
  std::vector<int64_t> groups;           // [size] in [0, group_names.size()); empty: no column
  std::vector<std::string> group_names;
  int64_t test_begin = -1;              // the source's own test samples start here; -1: none
  std::vector<int64_t> rows;            // [size] places in the source; empty: none is left out
  std::vector<PreciseFeature> precise;  // by feature; for standardize() alone
  std::vector<OpenColumn> open;         // by feature; csv alone
  // Parts of the source that were not read, for the line at the start: "3 .bmp files".
  std::vector<std::string> unread;
  // Names of clients of the source without a sample that is kept; nobody can ask for them.
  std::vector<std::string> left_out;

  int64_t size() const {
    return static_cast<int64_t>(labels.empty() ? targets.size() : labels.size()) / label_values;
  }
  LabelForm label_form() const { return {classes, label_values, multi_label}; }
  // The classes by which partitions and splits go: [size]; empty unless every sample has one class.
  std::span<const int32_t> sample_classes() const {
    return label_values == 1 ? std::span<const int32_t>(labels) : std::span<const int32_t>();
  }
  int64_t sample_values() const {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    return n;
  }
  int64_t sample_bytes() const { return sample_values() * storage_bytes(storage); }
};

// How the values of a channel are scaled: (x - mean) / deviation.
struct ChannelScale {
  float mean = 0;
  float share = 1;  // 1 / deviation
};

// The files of data/README.md, one reader each.
Dataset read_idx_folder(const std::string& folder);
// A table, or several of one header: `*` in the file's name stands for any characters, and where no
// column names the client they name it.
Dataset read_csv(const std::string& file, const DataOptions& options);
Dataset read_cifar(const std::string& folder, const std::string& label_column);
// `shape`: of a sample, in the place of the one that x has; empty: that.
Dataset read_npz(const std::string& file, const std::string& task,
                 const std::vector<int64_t>& shape = {});
// Reads pictures of one shape: the first one's, or `shape` (channels, height, width), to which
// other pictures are scaled. Cost: decodes one picture after the other, once.
Dataset read_images(const std::string& folder, const std::vector<int64_t>& shape);
// tokens > 0: values are uniform in {0, ..., tokens - 1}, not multiples of 1/255 in [0, 1].
Dataset make_random(const std::vector<int64_t>& shape, int64_t classes, int64_t samples,
                    uint64_t seed, int64_t tokens = 0);

// Linear regression on clients of unequal scale (Zhao et al. 2025, "Adaptive Client Sampling in
// Federated Learning via Online Learning with Bandit Feedback", section 7, equation 26). A sample
// of client m, which is group m:
//   y = <w*, x> + N(0, 0.1^2)
// dense: w*_j ~ N(10, 3^2), x ~ N(0, s_m Sigma) with Sigma diagonal, Sigma_jj =
// kappa^((j-1)/(d-1) - 1) (1 for d = 1), and s_m = exp(N(0, sigma^2)) times the factor that makes
// the largest 10. scale = "deviation" is the authors' code: s_m Sigma_jj is the standard deviation
// of x_j, so the covariance is s_m^2 Sigma^2 and its condition number kappa^2.
// support (section 7.4): one coordinate j a client, uniform; x_j ~ N(1, 0.1^2), the others 0;
// w*_j ~ exp(N(0, nu^2)).
// A pure function of its arguments. A client's samples do not depend on how many follow them, nor
// on the other clients, except for the factor on all s_m.
// Throws InvalidArgument: an option out of its range, an unknown name, too many samples.
// Cost: d + 1 normal numbers a sample. Known weakness: a large sigma leaves most clients with
// features near 0, whose targets are noise.
Dataset make_synthetic_regression(const DataOptions& options, int64_t clients,
                                  int64_t samples_per_client, uint64_t seed);

// Synthetic(alpha, beta) (Li et al. 2020, "Federated Optimization in Heterogeneous Networks",
// section 5.1). Client m, which is group m, has samples_per_client + floor(exp(N(4, 2^2))) samples
// of its own law and its own linear model:
//   x ~ N(v, Sigma), v_j ~ N(B, 1), B ~ N(0, beta^2), Sigma_jj = j^-1.2, j = 1..dimension
//   label = argmax_c (W x + b)_c, W_cj and b_c ~ N(u, 1), u ~ N(0, alpha^2), c = 1..classes
// (The paper writes N(0, alpha); alpha is the deviation in its authors' code.) A pure function of
// its arguments; a client's samples do not depend on the other clients.
// Throws InvalidArgument: an option out of its range, too many samples.
// Cost: d normal numbers and classes d multiplications a sample.
Dataset make_synthetic_classification(const DataOptions& options, int64_t clients,
                                      int64_t samples_per_client, uint64_t seed);

// The names, or none if each one is its own index: "0", "1", ...
std::vector<std::string> without_numbers(std::vector<std::string> names);

// Keeps these samples, in ascending order, with their places in the source, and the groups that
// they leave.
void keep_samples(Dataset& dataset, const std::vector<int64_t>& kept);

// Only the samples of the given classes, renumbered 0, 1, ... in the order given; each class keeps
// its name, or has its old number as one.
// Throws InvalidArgument when a class is outside the data's or stands twice.
Dataset keep_labels(Dataset dataset, const std::vector<int64_t>& labels);

}  // namespace hanse
