#include "hanse/data/rounded_features.hpp"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "rounded_numbers.hpp"

namespace hanse {

namespace {

constexpr int kBfloat16Bits = 8;
constexpr float kInfiniteInBfloat16 = 0x1.FFp127F;  // the least number that is rounded to infinity
constexpr int64_t kMostValues = int64_t{1} << 26;

bool is_like_a_token(float value) { return value >= 0 && value == std::floor(value); }

}  // namespace

std::string rounded_in_bfloat16(const Federation& federation, bool may_be_tokens) {
  if (federation.storage() != Storage::kFloat) return "";
  RoundedNumbers numbers(kBfloat16Bits, "bfloat16");
  const auto name = [&](int64_t feature) { return feature_label(federation, feature); };
  const int64_t width = federation.sample_values();
  const int64_t step = 1 + federation.samples() * width / kMostValues;
  std::vector<float> sample(to_index(width));
  for (int64_t i = 0; i < federation.samples(); i += step) {
    federation.copy({i, i + 1}, sample.data());
    for (int64_t feature = 0; feature < width; ++feature) {
      const float value = sample[to_index(feature)];
      if (std::abs(value) >= kInfiniteInBfloat16) {
        throw InvalidArgument(
            fmt::format("{} has the value {:.9g}, which is not finite in bfloat16", name(feature),
                        value),
            "model.precision", "scale the values, or use float32");
      }
      may_be_tokens = may_be_tokens && is_like_a_token(value);
      numbers.see(static_cast<double>(value), feature);
    }
  }
  return may_be_tokens ? "" : numbers.text(name);
}

}  // namespace hanse
