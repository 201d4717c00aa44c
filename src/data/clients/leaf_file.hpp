// One JSON file of LEAF's or FLUTE's, read from its start to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hanse {

inline constexpr const char* kLeafHint = "data/clients.md has the format";

// A sample or a label of a user.
struct LeafItem {
  bool is_label = false;
  int64_t place = 0;  // index in its list of samples or labels
  std::vector<double> numbers;
  int64_t texts = 0;
  std::string text;  // all its texts, joined
};

// The contents of a file beside samples and labels.
struct LeafUsers {
  std::vector<std::string> with_data;  // the keys of user_data
  std::vector<std::string> listed;     // "users"; empty: there is no such list
  std::vector<int64_t> num_samples;    // of the listed; empty: no such list
};

// Gets the samples and labels in the order of the file.
using LeafVisitor = std::function<void(const std::string& user, const LeafItem& item)>;

// {"users": [...], "num_samples": [...], "user_data": {USER: {"x": [...], "y": [...]}}}; or
// FLUTE's, {USER: {"x": [...]}} or {USER: [...]} with "user_data_label": {USER: [...]}. A sample is
// a number, a text or (nested) arrays of numbers. Other keys are skipped. Throws InvalidArgument
// with the path and, where it is known, the user: not JSON, cut off, none of these, a user that
// appears twice or in one of the lists alone. Cost: one pass; the file is mapped, and only the
// lists beside the data are kept.
LeafUsers read_leaf_file(const std::string& path, const LeafVisitor& visitor);

}  // namespace hanse
