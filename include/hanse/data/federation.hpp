// The clients and their samples: one copy a host, in shared memory, in client order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/names.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

// All that every rank must know to use the data. Only int64_t, for one broadcast.
struct FederationSizes {
  int64_t clients = 0;  // with training samples
  int64_t held_out = 0;
  int64_t validation_clients = 0;  // the first of the held-out clients
  int64_t validation_samples = 0;
  int64_t samples = 0;
  int64_t common_test = 0;
  int64_t train_samples = 0;
  int64_t sample_values = 0;
  int64_t storage = 0;
  int64_t classes = 0;
  int64_t label_values = 1;
  int64_t multi_label = 0;
  int64_t extents = 0;  // of the shape of one sample
  int64_t digest = 0;
  SamplePlaces places;
};

// The samples begin + order[i] of a federation, borrowed.
struct ListedSamples {
  int64_t begin = 0;
  std::span<const int32_t> order = {};
};

class Federation {
 public:
  // Collective over the ranks of one host: its first rank reads, partitions and splits; the others
  // map the same memory. Throws AgreedError on all of them when the input is bad. With
  // data.normalize, gather() and copy() write centred and scaled images (src/data/normalize.hpp).
  // Cost: the reading once a host; no private copy of any sample in the other ranks. Samples of
  // data.kind = hanse are read from the mapped file without a copy, and memory holds the pages that
  // the system keeps.
  static Federation load(const DataOptions& data, const FederationOptions& federation,
                         uint64_t seed, Communicator& host);

  // A view of these clients, numbered 0, 1, ... in this order; it shares this one's samples,
  // samples(), labels() and common_test(). Its digest is made of this one's and of `clients`.
  // REQUIRES: distinct clients; held-out ones stand behind the others, those for validation first.
  // Throws Error when they stand in another order. Local. Cost: O(clients).
  Federation of(std::span<const int64_t> clients) const;

  // A view with so many more clients in training, behind the others, who have no samples at all.
  // Throws InvalidArgument where clients are held out or have names. Local. Cost: O(clients).
  Federation with_idle(int64_t more) const;

  int64_t clients() const { return sizes_.clients; }  // those in training
  // Clients behind them, clients() <= client < clients() + held_out(): evaluated, never trained on
  // (federation.validation-clients, federation.held-out, and clients whose data are test samples
  // alone). The first of them are for validation.
  int64_t held_out() const { return sizes_.held_out; }
  int64_t validation_clients() const { return sizes_.validation_clients; }
  int64_t samples() const { return sizes_.samples; }
  const std::vector<int64_t>& sample_shape() const { return shape_; }
  int64_t sample_values() const { return sizes_.sample_values; }
  Storage storage() const { return static_cast<Storage>(sizes_.storage); }
  int64_t classes() const { return sizes_.classes; }  // of labels; 0: there are targets
  LabelForm label_form() const {
    return {sizes_.classes, sizes_.label_values, sizes_.multi_label != 0};
  }
  const FederationNames& names() const { return names_; }

  // REQUIRES: 0 <= client < clients() + held_out(). Empty for a client with test samples alone.
  SampleRange train(int64_t client) const {
    return {ranges_[client].begin, ranges_[client].train_end};
  }
  // The client's own test samples; its training samples if it has none, because data.test-fraction
  // is 0 or the client is too small.
  SampleRange test(int64_t client) const {
    return has_test(client) ? SampleRange{ranges_[client].test_begin(), ranges_[client].end}
                            : train(client);
  }
  bool has_test(int64_t client) const { return ranges_[client].test_begin() < ranges_[client].end; }
  // The client's validation samples likewise; a client for validation trains on no others.
  SampleRange validation(int64_t client) const {
    const ClientRanges& own = ranges_[client];
    const bool validates = client >= clients() && client < clients() + validation_clients();
    const int64_t end = validates ? own.end : own.test_begin();
    return own.train_end < end ? SampleRange{own.train_end, end} : train(client);
  }
  bool has_validation(int64_t client) const {
    const SampleRange own = validation(client);
    return own.size() > 0 && own.begin == ranges_[client].train_end;
  }
  int64_t validation_samples() const { return sizes_.validation_samples; }  // in training
  int64_t train_samples() const { return sizes_.train_samples; }            // of clients() clients
  // Test samples of the shared model, behind all clients' samples; often empty.
  SampleRange common_test() const { return {samples() - sizes_.common_test, samples()}; }

  // Writes samples begin + order[i] as floats into out [order.size(), sample_values()]. With each
  // it prefetches a sample of `next`, for a gather() that comes soon: memory brings it while others
  // are converted.
  void gather(int64_t begin, std::span<const int32_t> order, float* out,
              ListedSamples next = {}) const;
  // Writes their labels and targets; empty where there are none.
  void gather_labels(int64_t begin, std::span<const int32_t> order, std::vector<int32_t>& labels,
                     std::vector<float>& targets) const;
  // Writes the samples of the range as floats into out [range.size(), sample_values()].
  void copy(SampleRange range, float* out) const;

  // In the federation's order, as many a sample as label_form() says; empty if there are none.
  std::span<const int32_t> labels() const {
    return {labels_, labels_ ? to_index(samples() * sizes_.label_values) : 0};
  }
  std::span<const float> targets() const {
    return {targets_, targets_ ? to_index(samples() * sizes_.label_values) : 0};
  }

  // Bytes of the shared copy, or of the mapped file.
  int64_t bytes() const;
  // XXH3 of all samples, clients, sizes and names, to compare hosts; a mapped file states it.
  uint64_t digest() const { return static_cast<uint64_t>(sizes_.digest); }

 private:
  void values_of(int64_t sample, int64_t count, float* out) const;
  void prefetch(int64_t sample) const;

  std::shared_ptr<const std::byte> samples_memory_;  // features, labels and targets point into it
  std::shared_ptr<const std::byte> ranges_memory_;
  const std::byte* features_ = nullptr;
  const int32_t* labels_ = nullptr;
  const float* targets_ = nullptr;
  const ClientRanges* ranges_ = nullptr;  // [clients + held_out]
  FederationNames names_;
  std::vector<int64_t> shape_;
  FederationSizes sizes_;
  std::vector<ChannelScale> scales_;  // [channels] of images; empty: values are not scaled
};

// Is the client one of those held out of training that are for validation?
inline bool is_for_validation(const Federation& federation, int64_t client) {
  return client >= federation.clients() &&
         client < federation.clients() + federation.validation_clients();
}

// The labels of a range's samples, one after another; empty where there are none.
inline std::span<const int32_t> labels_of(const Federation& federation, SampleRange range) {
  const int64_t each = federation.label_form().values;
  if (federation.labels().empty()) return {};
  return federation.labels().subspan(to_index(range.begin * each), to_index(range.size() * each));
}

// The sample's place in the source, from 0: the row of a table or an array, whatever is left out;
// data with clients of their own have the place among the samples as they are read. With
// data.kind = hanse, or without DataOptions::rows, its place in the federation.
inline int64_t row_of(const Federation& federation, int64_t sample) {
  const int64_t* rows = federation.names().rows.get();
  return rows ? rows[sample] : sample;
}

// A client's name in messages: "client 'Switzerland'", or "client 2" if it has no name.
inline std::string client_label(const Federation& federation, int64_t client) {
  return label_of("client", client, federation.names().clients.at(client));
}

// A value of a sample in messages: "column 'age'", "feature 3". On the first rank of a host alone
// by its name.
std::string feature_label(const Federation& federation, int64_t feature);

// The client's share of all training samples, and those of all clients, [clients()].
inline double train_share(const Federation& federation, int64_t client) {
  return static_cast<double>(federation.train(client).size()) /
         static_cast<double>(federation.train_samples());
}
std::vector<double> train_shares(const Federation& federation);

}  // namespace hanse
