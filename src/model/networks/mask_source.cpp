#include "networks/mask_source.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

template <class Value>
void draw_mask(RandomStream& stream, uint64_t threshold, std::span<Value> mask) {
  constexpr std::size_t kBlock = 1024;
  std::array<uint32_t, kBlock> bits;
  for (std::size_t begin = 0; begin < mask.size(); begin += kBlock) {
    const auto part = mask.subspan(begin, std::min(kBlock, mask.size() - begin));
    stream.fill({reinterpret_cast<uint8_t*>(bits.data()), part.size() * sizeof(uint32_t)});
    for (std::size_t k = 0; k < part.size(); ++k) {
      part[k] = static_cast<Value>(bits[k] < threshold);
    }
  }
}

}  // namespace

at::Tensor HostMasks::keep(at::IntArrayRef shape, uint64_t threshold, bool is_bool) {
  const at::Tensor mask = at::empty(shape, is_bool ? at::kBool : at::kFloat);
  const std::size_t size = to_index(mask.numel());
  if (is_bool) {
    draw_mask(stream_, threshold, std::span(mask.data_ptr<bool>(), size));
  } else {
    draw_mask(stream_, threshold, std::span(mask.data_ptr<float>(), size));
  }
  return mask.to(device_);
}

}  // namespace hanse
