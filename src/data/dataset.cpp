#include "hanse/data/dataset.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// new_label[old label], -1 for dropped ones.
std::vector<int32_t> renumbering(int64_t classes, const std::vector<int64_t>& labels) {
  std::vector<int32_t> new_label(static_cast<std::size_t>(classes), -1);
  int32_t next = 0;
  for (const int64_t label : labels) {
    if (label < 0 || label >= classes) {
      throw InvalidArgument(fmt::format("class {} is not in the data", label), "data.labels",
                            fmt::format("the classes are 0 to {}", classes - 1));
    }
    int32_t& entry = new_label[static_cast<std::size_t>(label)];
    if (entry >= 0) {
      throw InvalidArgument(fmt::format("class {} stands twice", label), "data.labels",
                            "name every class once");
    }
    entry = next++;
  }
  return new_label;
}

// Moves the i-th of the kept elements, each `width` wide, to place i.
template <class Values>
void compact(Values& values, const std::vector<int64_t>& kept, int64_t width) {
  using T = typename Values::value_type;
  if (values.empty()) return;
  const auto stride = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto from = static_cast<std::size_t>(kept[i]);
    if (from != i) {
      std::memcpy(&values[i * stride], &values[from * stride], stride * sizeof(T));
    }
  }
  values.resize(kept.size() * stride);
  values.shrink_to_fit();
}

// Classes keep their names, and numbers that change become names.
std::vector<std::string> names_of(const std::vector<std::string>& before,
                                  const std::vector<int64_t>& labels) {
  std::vector<std::string> names;
  for (const int64_t label : labels) {
    names.push_back(before.empty() ? std::to_string(label)
                                   : before[static_cast<std::size_t>(label)]);
  }
  return without_numbers(std::move(names));
}

// Drops the groups without samples; the others keep their order.
void drop_empty_groups(Dataset& dataset) {
  std::vector<int64_t> new_group(dataset.group_names.size(), -1);
  for (const int64_t group : dataset.groups) new_group[static_cast<std::size_t>(group)] = 0;
  std::vector<std::string> names;
  for (std::size_t g = 0; g < new_group.size(); ++g) {
    if (new_group[g] < 0) {
      dataset.left_out.push_back(std::move(dataset.group_names[g]));
      continue;
    }
    new_group[g] = static_cast<int64_t>(names.size());
    names.push_back(std::move(dataset.group_names[g]));
  }
  for (int64_t& group : dataset.groups) group = new_group[static_cast<std::size_t>(group)];
  dataset.group_names = std::move(names);
}

}  // namespace

std::vector<std::string> without_numbers(std::vector<std::string> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) return names;
  }
  return {};
}

void keep_samples(Dataset& dataset, const std::vector<int64_t>& kept) {
  compact(dataset.rows, kept, 1);
  if (dataset.rows.empty()) dataset.rows = kept;
  compact(dataset.features, kept, dataset.sample_bytes());
  compact(dataset.labels, kept, dataset.label_values);
  compact(dataset.targets, kept, dataset.label_values);
  compact(dataset.groups, kept, 1);
  for (PreciseFeature& feature : dataset.precise) compact(feature.values, kept, 1);
  drop_empty_groups(dataset);
}

Dataset keep_labels(Dataset dataset, const std::vector<int64_t>& labels) {
  if (dataset.sample_classes().empty()) {
    throw InvalidArgument(
        "samples are kept by the one class of each, the data has " + dataset.label_form().text(),
        "data.labels", "leave data.labels empty");
  }
  const auto new_label = renumbering(dataset.classes, labels);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    int32_t& label = dataset.labels[static_cast<std::size_t>(i)];
    label = new_label[static_cast<std::size_t>(label)];
    if (label >= 0) kept.push_back(i);
  }
  if (kept.empty()) {
    throw InvalidArgument("no sample has one of these classes", "data.labels",
                          "name classes that the data have");
  }
  if (dataset.test_begin >= 0) {
    dataset.test_begin = std::ranges::lower_bound(kept, dataset.test_begin) - kept.begin();
  }
  keep_samples(dataset, kept);
  dataset.class_names = names_of(dataset.class_names, labels);
  dataset.classes = static_cast<int64_t>(labels.size());
  return dataset;
}

}  // namespace hanse
