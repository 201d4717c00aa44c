// Networks that read sequences of tokens: kinds lstm and transformer.
#pragma once

#include <array>
#include <vector>

#include "makers.hpp"

namespace hanse {

struct SequenceSizes {
  int64_t vocabulary, length, embedding, units, layers, outputs;
  bool every;  // every position has outputs; else the sequence has
  double dropout;
  int64_t heads = 0;  // of a transformer
};

// What both kinds read from the options; 0 where the kind has a size of its own. Throws
// InvalidArgument when they do not fit.
SequenceSizes sequence_sizes(const ModelCase& c);
inline int64_t given_or(int64_t value, int64_t preset) { return value > 0 ? value : preset; }

// As sequence_sizes(), with the sizes of kind lstm.
SequenceSizes lstm_sizes(const ModelCase& c);

// As sequence_sizes(), with the sizes of kind transformer. Throws InvalidArgument also when the
// heads do not divide the embedding.
SequenceSizes transformer_sizes(const ModelCase& c);

// [length, d]: sin(t / 10000^(2i/d)) in column 2i, the cosine in column 2i + 1.
std::vector<float> sinusoidal_positions(int64_t length, int64_t d);

// Values a sample of what an encoder layer drops from, in the order of the draws: its shares of
// attention, what attention adds, its hidden units and what they add. Before the first layer the
// embedded tokens [length, embedding] are drawn.
std::array<int64_t, 4> dropped_widths(const SequenceSizes& sizes);

// The tokens [rows, length]. Throws Error when a feature is no token.
std::vector<int64_t> token_ids(const Batch& batch, const SequenceSizes& sizes);

}  // namespace hanse
