// What the tests of data/ share: temporary files, expected errors, small data sets.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

// A folder that goes when the test ends.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hanse-data-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

// Runs `work`, which must throw InvalidArgument with one line that holds every given part.
inline void expect_invalid(const std::function<void()>& work,
                           const std::vector<std::string>& parts) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    for (const auto& part : parts) EXPECT_NE(what.find(part), std::string::npos) << what;
    EXPECT_NE(what.find("hint: "), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    return;
  }
  ADD_FAILURE() << "no InvalidArgument; expected one about " << parts.front();
}

// Classification data of one feature a sample, its own index.
inline Dataset numbered_dataset(const std::vector<int32_t>& labels, int64_t classes) {
  Dataset dataset{.shape = {1}, .storage = Storage::kFloat, .labels = labels, .classes = classes};
  std::vector<float> features(labels.size());
  std::iota(features.begin(), features.end(), 0.0F);
  const auto bytes = std::as_bytes(std::span<const float>(features));
  dataset.features.assign(bytes.begin(), bytes.end());
  return dataset;
}

// n samples with labels 0, 1, ..., classes-1, 0, 1, ...
inline Dataset cyclic_dataset(int64_t n, int64_t classes) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(static_cast<int32_t>(i % classes));
  return numbered_dataset(labels, classes);
}

inline Dataset regression_dataset(int64_t n) {
  Dataset dataset = cyclic_dataset(n, 1);
  for (int64_t i = 0; i < n; ++i) dataset.targets.push_back(-static_cast<float>(i));
  dataset.labels.clear();
  dataset.classes = 0;
  return dataset;
}

inline std::vector<int64_t> client_samples(const Partition& partition, int64_t client) {
  const auto c = static_cast<std::size_t>(client);
  return {partition.order.begin() + partition.offsets[c],
          partition.order.begin() + partition.offsets[c + 1]};
}

inline std::vector<int64_t> client_sizes(const Partition& partition) {
  std::vector<int64_t> sizes;
  for (std::size_t c = 0; c + 1 < partition.offsets.size(); ++c) {
    sizes.push_back(partition.offsets[c + 1] - partition.offsets[c]);
  }
  return sizes;
}

// The values of data that stores float32.
inline std::vector<float> features_of(const Dataset& dataset) {
  std::vector<float> values(dataset.features.size() / sizeof(float));
  std::memcpy(values.data(), dataset.features.data(), dataset.features.size());
  return values;
}

}  // namespace hanse
