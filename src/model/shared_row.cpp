#include "shared_row.hpp"

#include <algorithm>

#include "hanse/base/digest.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/short_floats.hpp"
#include "hanse/comm/common_memory.hpp"

namespace hanse {

namespace {

constexpr auto kWide = static_cast<int64_t>(sizeof(float));
constexpr auto kNarrow = static_cast<int64_t>(sizeof(uint16_t));

int64_t values_of(std::span<const PartTensor> tensors) {
  int64_t values = 0;
  for (const PartTensor& tensor : tensors) values += tensor.size;
  return values;
}

// What lies between narrow tensors, and these behind the row.
std::vector<MemoryPart> parts_of(int64_t size, std::span<const PartTensor> narrow) {
  std::vector<MemoryPart> parts;
  int64_t begin = 0;
  const auto add = [&](int64_t end) {
    if (end > begin) parts.push_back({begin * kWide, (end - begin) * kWide});
  };
  for (const PartTensor& tensor : narrow) {
    add(tensor.whole);
    begin = tensor.whole + tensor.size;
  }
  add(size);
  parts.push_back({size * kWide, values_of(narrow) * kNarrow});
  return parts;
}

// Writes the parts of a row to where they lie.
void put(std::span<const float> row, std::span<const PartTensor> narrow,
         std::span<const MemoryPart> parts, std::byte* to) {
  const auto wide = std::as_bytes(row);
  for (const MemoryPart& part : parts.first(parts.size() - 1)) {
    std::copy_n(wide.begin() + part.begin, part.size, to + part.begin);
  }
  auto* const behind = reinterpret_cast<uint16_t*>(to + parts.back().begin);
  for (const PartTensor& tensor : narrow) {
    std::transform(row.begin() + tensor.whole, row.begin() + tensor.whole + tensor.size,
                   behind + tensor.own, bfloat16_bits);
  }
}

}  // namespace

int64_t shared_row_bytes(int64_t size, std::span<const PartTensor> narrow) {
  const int64_t values = values_of(narrow);
  return (size - values) * kWide + values * kNarrow;
}

SharedRow share_row(Communicator& host, int64_t size, std::span<const PartTensor> narrow,
                    const std::function<void(std::span<float>)>& draw) {
  CommonMemory memory;
  if (narrow.empty()) {
    memory = share_to_change(host, size * kWide, [&](std::byte* to) {
      draw({reinterpret_cast<float*>(to), to_index(size)});
    });
  } else {
    const std::vector<MemoryPart> parts = parts_of(size, narrow);
    const int64_t bytes = parts.back().begin + parts.back().size;
    memory = share_parts_to_change(host, bytes, parts, [&](std::byte* to) {
      std::vector<float> row(to_index(size));
      draw(row);
      put(row, narrow, parts, to);
    });
  }
  const auto floats = [](const std::shared_ptr<std::byte>& bytes) {
    return std::shared_ptr<float>(bytes, reinterpret_cast<float*>(bytes.get()));
  };
  SharedRow row{floats(memory.common), floats(memory.own), nullptr};
  if (!narrow.empty()) {
    row.narrow = {memory.common, reinterpret_cast<uint16_t*>(row.start.get() + size)};
  }
  return row;
}

void read_shared_row(const float* start, const uint16_t* narrow_values,
                     std::span<const PartTensor> narrow, std::span<float> to) {
  int64_t begin = 0;
  const auto copy = [&](int64_t end) {
    std::copy_n(start + begin, end - begin, to.begin() + begin);
  };
  for (const PartTensor& tensor : narrow) {
    copy(tensor.whole);
    begin = tensor.whole + tensor.size;
    std::transform(narrow_values + tensor.own, narrow_values + tensor.own + tensor.size,
                   to.begin() + tensor.whole, bfloat16_value);
  }
  copy(std::ssize(to));
}

std::string shared_row_digest(const float* start, int64_t size,
                              std::span<const PartTensor> narrow) {
  const auto digest = [&](const MemoryPart& part) {
    return digest_hex(
        {reinterpret_cast<const std::byte*>(start) + part.begin, to_index(part.size)});
  };
  if (narrow.empty()) return digest({0, size * kWide});
  std::string digests;
  for (const MemoryPart& part : parts_of(size, narrow)) digests += digest(part);
  return digest_hex(std::as_bytes(std::span(digests)));
}

void round_to_bfloat16(std::span<const PartTensor> tensors, std::span<float> row) {
  for (const PartTensor& tensor : tensors) {
    for (float& value : row.subspan(to_index(tensor.whole), to_index(tensor.size))) {
      value = bfloat16_value(bfloat16_bits(value));
    }
  }
}

}  // namespace hanse
