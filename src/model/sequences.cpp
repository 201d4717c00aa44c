#include "sequences.hpp"

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

SequenceSizes sequence_sizes(const ModelCase& c) {
  const ModelOptions& options = c.options;
  const int64_t outputs = c.loss->outputs();
  if (c.sample_shape.size() != 1) refuse_shape(c, "{length}");
  const int64_t positions = c.loss->positions();
  if (positions > 1 && positions != c.sample_shape[0]) {
    throw InvalidArgument(
        fmt::format("a sample has {} labels and {} positions", positions, c.sample_shape[0]),
        "data.path", "every position has a label, which may be -1");
  }
  if (options.vocabulary == 0 && c.loss->rule() != LossRule::kCrossEntropy) {
    throw InvalidArgument("the number of tokens is not known", "model.vocabulary",
                          "it is that of the classes only where the loss is cross-entropy");
  }
  return {.vocabulary = given_or(options.vocabulary, outputs),
          .length = c.sample_shape[0],
          .embedding = options.embedding,
          .units = options.units,
          .layers = options.layers,
          .outputs = outputs,
          .every = positions > 1,
          .dropout = options.dropout};
}

SequenceSizes lstm_sizes(const ModelCase& c) {
  SequenceSizes sizes = sequence_sizes(c);
  sizes.embedding = given_or(sizes.embedding, 8);
  sizes.units = given_or(sizes.units, 256);
  sizes.layers = given_or(sizes.layers, 2);
  return sizes;
}

std::vector<int64_t> token_ids(const Batch& batch, const SequenceSizes& sizes) {
  std::vector<int64_t> ids(static_cast<std::size_t>(batch.rows * sizes.length));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float token = batch.features[i];
    if (!is_token(token, sizes.vocabulary)) {
      throw Error(
          fmt::format("{} is no token: whole numbers below {} are", token, sizes.vocabulary),
          "model.vocabulary", "");
    }
    ids[i] = static_cast<int64_t>(token);
  }
  return ids;
}

}  // namespace hanse
