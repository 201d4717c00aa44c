#include <algorithm>
#include <cmath>

#include "hanse/base/index.hpp"
#include "picture.hpp"

namespace hanse {

namespace {

constexpr int kFractionBits = 22;  // of the weights, which are fixed-point numbers

// The weights that make one place of the new line.
struct Taps {
  int64_t first = 0;             // index in the old line
  std::vector<int64_t> weights;  // its weight and those of the next
};

std::vector<Taps> taps_of(int64_t old_size, int64_t new_size) {
  const double scale = static_cast<double>(old_size) / static_cast<double>(new_size);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(to_index(new_size));
  for (int64_t i = 0; i < new_size; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    Taps& taps = all[to_index(i)];
    taps.first = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5));
    const int64_t end = std::min(old_size, static_cast<int64_t>(center + reach + 0.5));
    std::vector<double> shares;
    double sum = 0;
    for (int64_t j = taps.first; j < end; ++j) {
      const double distance = std::abs((static_cast<double>(j) - center + 0.5) / reach);
      shares.push_back(std::max(0.0, 1 - distance));
      sum += shares.back();
    }
    for (const double share : shares) {
      taps.weights.push_back(static_cast<int64_t>(share / sum * (1 << kFractionBits) + 0.5));
    }
  }
  return all;
}

// Resizes one axis of [outer, old size, inner] to the number of taps.
std::vector<uint8_t> resize_axis(const std::vector<uint8_t>& in, int64_t outer, int64_t old_size,
                                 int64_t inner, const std::vector<Taps>& all) {
  std::vector<uint8_t> out;
  out.reserve(to_index(outer * std::ssize(all) * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (const Taps& taps : all) {
      const uint8_t* first = in.data() + (o * old_size + taps.first) * inner;
      for (int64_t i = 0; i < inner; ++i) {
        int64_t sum = int64_t{1} << (kFractionBits - 1);
        for (int64_t t = 0; t < std::ssize(taps.weights); ++t) {
          sum += taps.weights[to_index(t)] * first[t * inner + i];
        }
        out.push_back(static_cast<uint8_t>(std::min<int64_t>(sum >> kFractionBits, 255)));
      }
    }
  }
  return out;
}

}  // namespace

void resize(Picture& picture, int64_t height, int64_t width) {
  if (width != picture.width) {
    picture.pixels = resize_axis(picture.pixels, picture.height, picture.width, picture.channels,
                                 taps_of(picture.width, width));
    picture.width = width;
  }
  if (height != picture.height) {
    picture.pixels = resize_axis(picture.pixels, 1, picture.height,
                                 picture.width * picture.channels, taps_of(picture.height, height));
    picture.height = height;
  }
}

void set_channels(Picture& picture, int64_t channels) {
  if (channels == picture.channels) return;
  std::vector<uint8_t> out;
  const auto& in = picture.pixels;
  if (channels == 3) {
    for (const uint8_t grey : in) out.insert(out.end(), 3, grey);
  } else {
    for (std::size_t p = 0; p < in.size(); p += 3) {
      const uint32_t sum = 19595U * in[p] + 38470U * in[p + 1] + 7471U * in[p + 2];
      out.push_back(static_cast<uint8_t>((sum + (1U << 15)) >> 16));
    }
  }
  picture.pixels = std::move(out);
  picture.channels = channels;
}

}  // namespace hanse
