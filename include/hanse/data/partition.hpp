// Which client owns which samples. Every partition is disjoint and gives every client a sample; all
// but `sizes`, `class-shares`, and `labels` where nobody has a label, also cover the data.
// data/partitions.md defines each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/base/kind.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/options.hpp"

namespace hanse {

// Client c owns order[offsets[c] .. offsets[c+1]): its training samples first, from train_end[c]
// its validation samples, then its test samples.
struct Partition {
  std::vector<int64_t> order;       // sample indices
  std::vector<int64_t> offsets;     // [clients + 1]
  std::vector<int64_t> train_end;   // [clients]
  std::vector<int64_t> validation;  // [clients] number of samples; empty: none

  int64_t clients() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

// The kinds of partition, in the order of data/partitions.md.
std::vector<KindRow<FederationOptions>> partition_kinds();

// Assigns samples to clients; a pure function of labels, groups, options and seed. train_end is
// offsets[c+1]. by-column takes the number of clients from the data.
// Throws InvalidArgument: more clients than samples, a partition that cannot be met (says what is
// possible), by-column without a client column.
// Cost: O(samples + clients), dirichlet O(classes * clients + samples).
Partition partition_samples(const Dataset& dataset, const FederationOptions& options,
                            uint64_t seed);

// Moves round(test_fraction * n_label) samples of every label of every client to the client's test
// part. It is stratified: fractions left over go to the labels with the largest remainder, so that
// a client of n samples tests on round(test_fraction * n). A whole number of at least 1 is the
// number for each client. Every client keeps at least one training sample. Regression data are one
// stratum.
void split_train_test(Partition& partition, const Dataset& dataset, double test_fraction,
                      uint64_t seed);

// Turns training samples into validation samples likewise. Throws InvalidArgument, with the
// client's name (`names` [clients] or empty), if nothing would be left for training.
void split_validation(Partition& partition, const Dataset& dataset,
                      const std::vector<std::string>& names, double validation_fraction,
                      uint64_t seed);

// Fills the missing values of a table's columns, and makes a column of 0 and 1 of each category,
// dataset.open, by the samples that are trained on: those in the training parts of clients that are
// not `held_out` [clients], or each client's own (`scope` kClient; where it has none, all
// clients'). Categories are those of the clients that are not held out; a value that only others
// have is 0 in all of them. Notices say what was filled, and with what. Throws InvalidArgument: no
// value is known, or the samples have a shape that columns are added to. Cost: two passes over
// these columns; where columns are added, a copy of the features.
void complete(Dataset& dataset, const Partition& partition, const std::vector<char>& held_out,
              MissingValues missing, Standardize scope);

// x <- (x - mean) / deviation, column by column, for every sample of the partition. Mean and
// population deviation (divided by n) are those of the training samples, so that test samples stay
// unseen: the sample's own client's (kClient: what a hospital can do alone), or those of all
// clients that are not `held_out` [clients] (kAll: needs d means and deviations shared beforehand).
// A column that is constant there, as every column of a client with one training sample, is only
// centred. kNone changes nothing. Samples that belong to nobody stay as they are.
// Throws InvalidArgument for features stored as bytes, and a result that is not
// finite in float32 (a test value far outside a narrow column).
// Cost: two passes over the features, sums in float64.
void standardize(Dataset& dataset, const Partition& partition, const std::vector<char>& held_out,
                 Standardize scope);

}  // namespace hanse
