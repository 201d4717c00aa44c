// Networks that read sequences of tokens: kinds lstm and transformer.
#pragma once

#include <vector>

#include "makers.hpp"

namespace hanse {

struct SequenceSizes {
  int64_t vocabulary, length, embedding, units, layers, outputs;
  bool every;  // every position has outputs; else the sequence has
  double dropout;
};

// What both kinds read from the options; 0 where the kind has a size of its own. Throws
// InvalidArgument when they do not fit.
SequenceSizes sequence_sizes(const ModelCase& c);
inline int64_t given_or(int64_t value, int64_t preset) { return value > 0 ? value : preset; }

// As sequence_sizes(), with the sizes of kind lstm.
SequenceSizes lstm_sizes(const ModelCase& c);

// The tokens [rows, length]. Throws Error when a feature is no token.
std::vector<int64_t> token_ids(const Batch& batch, const SequenceSizes& sizes);

}  // namespace hanse
