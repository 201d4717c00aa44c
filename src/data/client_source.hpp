// Clients and their samples on their way into shared memory or a file. A source first tells the
// sizes, then writes the samples, so that nobody holds all of them on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/data/dataset.hpp"

namespace hanse {

// The limit where a file numbers its classes: a larger label is a mistake.
constexpr int64_t kMostClasses = int64_t{1} << 24;

struct ClientLayout {
  std::vector<int64_t> shape;  // of one sample
  Storage storage = Storage::kFloat;
  int64_t classes = 0;  // see LabelForm
  int64_t label_values = 1;
  bool multi_label = false;
  std::vector<ClientRanges> clients;  // each begins where the one before it ends
  int64_t held_out = 0;               // the last ones: they have test samples only
  int64_t common_test = 0;            // samples behind the clients', for tests
  // The data's names; empty: they have numbers alone.
  std::vector<std::string> client_names;  // [clients.size()]
  std::vector<std::string> class_names;   // [scored classes]
  FeatureRecord record;                   // as in Dataset
  std::vector<std::string> unread;        // as in Dataset
  std::vector<std::string> left_out;      // as in Dataset

  int64_t client_samples() const { return clients.empty() ? 0 : clients.back().end; }
  int64_t samples() const { return client_samples() + common_test; }
  int64_t sample_values() const;
  int64_t sample_bytes() const { return sample_values() * storage_bytes(storage); }
  int64_t label_bytes() const { return label_values * 4; }  // labels and targets alike
  LabelForm label_form() const { return {classes, label_values, multi_label}; }
};

// Throws InvalidArgument: a client's or class's name that is no UTF-8.
void check_names(const ClientLayout& layout, const std::string& path);

// What was done to the features, with what the layout knows of samples and labels.
FeatureRecord record_of(const ClientLayout& layout);

// The memory that gets the samples.
struct SampleArrays {
  std::byte* features;  // [samples, sample_values], stored as the layout says
  int32_t* labels;      // [samples, label_values]; null: there are targets
  float* targets;       // [samples, label_values]; null: there are labels
  // [samples] places in the source, where they are kept; before write() those of the federation.
  int64_t* rows = nullptr;

  // Calls f(array, bytes of one sample in it) for each array of the samples that there is.
  template <class F>
  void for_each(const ClientLayout& layout, F f) const {
    f(features, layout.sample_bytes());
    if (labels) f(reinterpret_cast<std::byte*>(labels), layout.label_bytes());
    if (targets) f(reinterpret_cast<std::byte*>(targets), layout.label_bytes());
  }
};

SampleArrays arrays_at(const SamplePlaces& places, std::byte* memory);

// XXH3 of the stored samples, the clients' ranges, all sizes and names.
uint64_t digest_of(const ClientLayout& layout, const SampleArrays& arrays);

// Writes element order[i] - begin of `in`, `width` bytes each, to place i.
void copy_ordered(std::byte* out, const void* in, std::span<const int64_t> order, int64_t begin,
                  int64_t width);

class ClientSource {
 public:
  virtual ~ClientSource() = default;
  const ClientLayout& layout() const { return layout_; }  // of all samples
  // Writes every sample. Called at most once. Throws InvalidArgument.
  virtual void write(const SampleArrays& out) = 0;
  ClientLayout take_layout() { return std::move(layout_); }  // behind write(), instead of a copy

 protected:
  ClientLayout layout_;  // filled by the constructor
};

// Lays clients with these numbers of training and test samples one after another: those with
// training samples, then, held out, those with test samples alone. Returns their indices in this
// order. With a `test_fraction` above 0 the data have no test samples of their own: so many of each
// client's training samples become them (split.hpp), and split_clients() chooses which.
std::vector<std::size_t> lay_out(ClientLayout& layout, const std::vector<int64_t>& train,
                                 const std::vector<int64_t>& test, double test_fraction = 0);

// Turns so many of each client's training samples in the layout, which has its names, into
// validation samples; split_clients() chooses which. Throws as split_validation().
void lay_validation(ClientLayout& layout, double validation_fraction);

// Moves every client's validation and test samples behind its training samples, as
// split_train_test() and split_validation() do; the layout's counts are those of samples_kept_out()
// (split.hpp). A fraction of 0 moves nothing. Cost: a pass over the samples for each part, one
// client in memory.
void split_clients(const ClientLayout& layout, double test_fraction, double validation_fraction,
                   uint64_t seed, const SampleArrays& arrays);

// The sources of files with clients of their own; data/clients.md has their grammar. Throw
// InvalidArgument: files that are missing, damaged or lack what the options name.
std::unique_ptr<ClientSource> make_leaf_source(const DataOptions& data, uint64_t seed);
std::unique_ptr<ClientSource> make_role_source(const DataOptions& data, int64_t min_samples);
std::unique_ptr<ClientSource> make_tff_source(const DataOptions& data, uint64_t seed);
// The source of Hanse's own file, read whole and checked: to write it again.
std::unique_ptr<ClientSource> make_copied_source(const std::string& path);

// "1 user", "2 users".
std::string counted(int64_t count, const std::string& one, const std::string& many);
// "a, b, c"; of more than eight names the first ones and the last: "a, b, ... z".
std::string shortened(const std::vector<std::string>& names);

// The line at the start of a run that describes the data:
// "data: 120 samples of 4 clients, 3 classes: cat, dog, horse", and behind it any oddities: classes
// without a sample, and parts of the source that were not read. `labels` of all samples of the
// layout; empty: there are targets. Cost: a pass over the labels.
std::string data_line(const ClientLayout& layout, std::span<const int32_t> labels);

}  // namespace hanse
