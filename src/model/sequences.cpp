#include "sequences.hpp"

#include <cmath>

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

SequenceSizes transformer_sizes(const ModelCase& c) {
  SequenceSizes sizes = sequence_sizes(c);
  sizes.embedding = given_or(sizes.embedding, 64);
  sizes.units = given_or(sizes.units, 4 * sizes.embedding);
  sizes.layers = given_or(sizes.layers, 1);
  sizes.heads = c.options.heads;
  if (sizes.heads < 1 || sizes.embedding % sizes.heads != 0) {
    throw InvalidArgument(
        fmt::format("{} heads do not divide an embedding of {}", sizes.heads, sizes.embedding),
        "model.heads");
  }
  return sizes;
}

std::vector<float> sinusoidal_positions(int64_t length, int64_t d) {
  std::vector<float> positions;
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t column = 0; column < d; ++column) {
      const double exponent = static_cast<double>(column - column % 2) / static_cast<double>(d);
      const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
      positions.push_back(static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  return positions;
}

std::array<int64_t, 4> dropped_widths(const SequenceSizes& sizes) {
  const int64_t row = sizes.length * sizes.embedding;
  return {sizes.heads * sizes.length * sizes.length, row, sizes.length * sizes.units, row};
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
