#include "normalize.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "data.normalize";

ChannelScale scale_of(double mean, double deviation) {
  return {.mean = static_cast<float>(mean), .share = static_cast<float>(1 / deviation)};
}

double number(const std::string& text) {
  try {
    return parse_number(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error.what(), kKey);
  }
}

// The mean of f(value, channel) over each channel's values.
template <class F>
std::vector<double> means_of(const std::vector<int64_t>& shape, const EachSample& each_sample,
                             F f) {
  const auto channels = static_cast<std::size_t>(shape[0]);
  const auto plane = static_cast<std::size_t>(shape[1] * shape[2]);
  std::vector<double> sums(channels, 0.0);
  double count = 0;
  each_sample([&](const float* image) {
    count += static_cast<double>(plane);
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::size_t k = c * plane; k < (c + 1) * plane; ++k) sum += f(image[k], c);
      sums[c] += sum;
    }
  });
  for (double& sum : sums) sum /= count;
  return sums;
}

std::vector<ChannelScale> measured(const std::vector<int64_t>& shape,
                                   const EachSample& each_sample) {
  const auto means =
      means_of(shape, each_sample, [](float x, std::size_t) { return static_cast<double>(x); });
  const auto variances = means_of(shape, each_sample, [&](float x, std::size_t c) {
    const double off = static_cast<double>(x) - means[c];
    return off * off;
  });
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < means.size(); ++c) {
    const double deviation = std::sqrt(variances[c]);
    scales.push_back(scale_of(means[c], deviation > 1e-9 ? deviation : 1));
  }
  return scales;
}

}  // namespace

std::vector<ChannelScale> channel_scales(const std::string& text, const std::vector<int64_t>& shape,
                                         const EachSample& each_sample) {
  if (text == "none") return {};
  if (shape.size() != 3) {
    throw InvalidArgument(
        fmt::format("samples of shape {{{}}} are no images", fmt::join(shape, ", ")), kKey,
        "images have {channels, height, width}; data.standardize is for tables");
  }
  if (text == "all") return measured(shape, each_sample);
  const auto numbers = split_list(text);
  const auto channels = static_cast<std::size_t>(shape[0]);
  if (numbers.size() != 2 * channels) {
    throw InvalidArgument(fmt::format("'{}' has {} numbers for images of {} channel{}", text,
                                      numbers.size(), channels, channels == 1 ? "" : "s"),
                          kKey, "none, all, or the channels' means and then their deviations");
  }
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = number(numbers[c]), deviation = number(numbers[channels + c]);
    if (!(deviation > 0)) {
      throw InvalidArgument("the deviation " + numbers[channels + c] + " is not positive", kKey);
    }
    scales.push_back(scale_of(mean, deviation));
  }
  return scales;
}

}  // namespace hanse
