#include "class_weights.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "client.class-weights";

std::vector<float> listed_weights(const std::string& text, int64_t classes) {
  std::vector<float> weights;
  try {
    for (const std::string& item : split_list(text)) {
      weights.push_back(static_cast<float>(parse_number(item)));
    }
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' is no word that is known and no list of numbers", text),
                          kKey, "known: none, client, all, or a weight for each class");
  }
  if (std::any_of(weights.begin(), weights.end(), [](float w) { return !(w >= 0); })) {
    throw InvalidArgument("a class cannot weigh less than 0", kKey);
  }
  if (std::ssize(weights) == classes) return weights;
  throw InvalidArgument(fmt::format("{} weights for {} classes", weights.size(), classes), kKey,
                        "give a weight for each class, in the order of the labels");
}

// Counts the labels of samples; of sequences, those of all positions that have one.
void count_labels(const Federation& federation, SampleRange range, std::span<int64_t> counts) {
  for (const int32_t label : labels_of(federation, range)) {
    if (label >= 0) ++counts[static_cast<std::size_t>(label)];
  }
}

}  // namespace

ClassWeights::ClassWeights(const LossOptions& options, const Federation& federation)
    : federation_(federation), of_client_(options.class_weights == "client") {
  if (options.class_weights == "none") return;
  const int64_t classes = federation.classes();
  if (classes == 0) {
    throw InvalidArgument("targets and several labels a sample have no class to weigh it by", kKey,
                          "leave it at none");
  }
  if (of_client_) return;
  if (options.class_weights != "all") {
    weights_ = listed_weights(options.class_weights, classes);
    return;
  }
  std::vector<int64_t> counts(static_cast<std::size_t>(classes));
  for (int64_t client = 0; client < federation.clients(); ++client) {
    count_labels(federation, federation.train(client), counts);
  }
  balance(counts);
}

const float* ClassWeights::of(int64_t begin, std::span<const int32_t> order) {
  if (of_client_) {
    std::vector<int64_t> counts(static_cast<std::size_t>(federation_.classes()));
    for (const int32_t offset : order) {
      count_labels(federation_, {begin + offset, begin + offset + 1}, counts);
    }
    balance(counts);
  }
  return weights_.empty() ? nullptr : weights_.data();
}

void ClassWeights::balance(std::span<const int64_t> counts) {
  const auto samples =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const auto absent = std::count(counts.begin(), counts.end(), 0);
  const auto present = static_cast<double>(std::ssize(counts) - absent);
  weights_.assign(counts.size(), 0.0F);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    weights_[c] = static_cast<float>(samples / (present * static_cast<double>(counts[c])));
  }
}

}  // namespace hanse
