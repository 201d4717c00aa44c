// Texts with tags: bags of words that have several labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client_source.hpp"
#include "tff_pair.hpp"

namespace hanse {

// Sample: for each of the data.vocabulary-size most frequent words its share of the words in a text
// of the dataset `features`, one of the clients' `names`; the text of `title` follows where
// data.feature-column is empty and there is one. Label: which of the data.tags most frequent tags
// the text has, among those between | in data.label-column. Equally frequent ones go by their
// bytes; all texts are counted. Throws InvalidArgument. Cost: reads every text twice; samples take
// 4 bytes a word of the vocabulary.
std::unique_ptr<ClientSource> make_tag_source(std::unique_ptr<TffPair> files, std::string features,
                                              const std::vector<std::string>& names,
                                              const DataOptions& data, uint64_t seed);

}  // namespace hanse
