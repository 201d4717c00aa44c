// What a source writes, for tests.
#pragma once

#include <cstring>
#include <vector>

#include "data/client_source.hpp"
#include "support.hpp"

namespace hanse {

struct Written {
  explicit Written(ClientSource& source) : layout(source.layout()) {
    const auto samples = static_cast<std::size_t>(layout.samples());
    const auto label_values = static_cast<std::size_t>(layout.samples() * layout.label_values);
    features.resize(samples * static_cast<std::size_t>(layout.sample_bytes()), std::byte{0xEE});
    labels.resize(layout.classes > 0 ? label_values : 0, -7);
    targets.resize(layout.classes > 0 ? 0 : label_values, -7);
    source.write({.features = features.data(),
                  .labels = labels.empty() ? nullptr : labels.data(),
                  .targets = targets.empty() ? nullptr : targets.data()});
  }

  // Values of one sample as they are stored: a byte is not divided.
  std::vector<float> sample(int64_t i) const {
    std::vector<float> values(static_cast<std::size_t>(layout.sample_values()));
    const std::byte* from = features.data() + i * layout.sample_bytes();
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (layout.storage == Storage::kFloat) {
        std::memcpy(&values[v], from + v * sizeof(float), sizeof(float));
      } else if (layout.storage == Storage::kToken16) {
        uint16_t token = 0;
        std::memcpy(&token, from + v * sizeof token, sizeof token);
        values[v] = token;
      } else {
        values[v] = static_cast<float>(from[v]);
      }
    }
    return values;
  }

  ClientLayout layout;
  std::vector<std::byte> features;
  std::vector<int32_t> labels;
  std::vector<float> targets;
};

}  // namespace hanse
