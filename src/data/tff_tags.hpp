// Texts with tags: bags of words that have several labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client_source.hpp"
#include "tff_pair.hpp"

namespace hanse {

// Sample: for each of the data.vocabulary-size most frequent words its share of the words of one
// text of the dataset `features`, one of the clients' `names`, with that of `title` behind it where
// data.feature-column is empty and there is one. Label: which of the data.tags most frequent tags
// the text has, of those that stand in data.label-column between |. Equally frequent ones by their
// bytes; all texts are counted. Throws InvalidArgument. Cost: every text is read twice; samples are
// 4 bytes a word of the vocabulary.
std::unique_ptr<ClientSource> make_tag_source(std::unique_ptr<TffPair> files, std::string features,
                                              const std::vector<std::string>& names,
                                              const DataOptions& data, uint64_t seed);

}  // namespace hanse
