#include "plain_hdf5.hpp"

#include <bit>
#include <cstring>
#include <filesystem>

#include "hanse/base/mapped_file.hpp"

namespace hanse {

namespace {

// Messages of an object header.
constexpr uint16_t kDataspace = 0x01;
constexpr uint16_t kDatatype = 0x03;
constexpr uint16_t kExternalFiles = 0x07;
constexpr uint16_t kLayout = 0x08;
constexpr uint16_t kContinuation = 0x10;
constexpr uint16_t kSymbolTable = 0x11;
constexpr uint8_t kShared = 0x02;  // flag: the message only says where it stands

constexpr uint8_t kLayoutVersion = 3;
constexpr uint8_t kContiguous = 1;

}  // namespace

PlainHdf5::PlainHdf5(const std::string& path)
    : size_(static_cast<int64_t>(std::filesystem::file_size(path))),
      memory_(map_file(path, size_, Access::kRead)) {}

// Empty when it reaches beyond the file.
std::span<const std::byte> PlainHdf5::part(uint64_t address, uint64_t bytes) const {
  const auto size = static_cast<uint64_t>(size_);
  if (address > size || bytes > size - address) return {};
  return {memory_.get() + address, bytes};
}

// Zero beyond the file: no count, no address and no version that is understood.
template <class T>
T PlainHdf5::get(uint64_t address) const {
  static_assert(std::endian::native == std::endian::little, "numbers stand in the file's order");
  T value{};
  const auto bytes = part(address, sizeof(T));
  if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

bool PlainHdf5::says(uint64_t address, std::string_view text) const {
  const auto bytes = part(address, text.size());
  return !bytes.empty() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// f(kind, flags, address, bytes) of each message of a header of version 1; nothing of another one.
template <class F>
void PlainHdf5::for_each_message(uint64_t header, F f) const {
  if (get<uint8_t>(header) != 1) return;
  int left = get<uint16_t>(header + 2);
  struct Block {
    uint64_t begin, bytes;
  };
  std::vector<Block> blocks{{header + 16, get<uint32_t>(header + 8)}};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Block block = blocks[b];
    for (uint64_t at = 0; at + 8 <= block.bytes && left > 0; --left) {
      const uint64_t message = block.begin + at;
      const auto kind = get<uint16_t>(message), bytes = get<uint16_t>(message + 2);
      if (kind == kContinuation) {
        blocks.push_back({get<uint64_t>(message + 8), get<uint64_t>(message + 16)});
      }
      f(kind, get<uint8_t>(message + 4), message + 8, bytes);
      at += 8 + uint64_t{bytes};
    }
  }
}

// The header's address; 0: there is no such link, or the tree has more than one level.
uint64_t PlainHdf5::find_link(uint64_t tree, uint64_t names, std::string_view name) const {
  if (!says(tree, std::string_view("TREE\0\0", 6))) return 0;
  const std::string ended = std::string(name) + '\0';
  for (int node = 0; node < get<uint16_t>(tree + 6); ++node) {
    const auto symbols = get<uint64_t>(tree + 32 + 16 * static_cast<uint64_t>(node));
    if (!says(symbols, "SNOD")) return 0;
    for (int entry = 0; entry < get<uint16_t>(symbols + 6); ++entry) {
      const uint64_t link = symbols + 8 + 40 * static_cast<uint64_t>(entry);
      if (says(names + get<uint64_t>(link), ended)) return get<uint64_t>(link + 8);
    }
  }
  return 0;
}

// Empty: not understood.
std::vector<int64_t> PlainHdf5::extents_at(uint64_t message) const {
  const auto version = get<uint8_t>(message);
  if (version != 1 && version != 2) return {};
  std::vector<int64_t> extents(get<uint8_t>(message + 1));
  uint64_t at = message + (version == 1 ? 8 : 4);
  for (int64_t& extent : extents) {
    extent = get<int64_t>(at);
    at += 8;
  }
  return extents;
}

std::optional<PlainDataset> PlainHdf5::dataset_at(uint64_t header) const {
  PlainDataset found;
  bool plain = true;
  for_each_message(header, [&](uint16_t kind, uint8_t flags, uint64_t at, uint64_t bytes) {
    switch (kind) {
      case kDataspace: found.extents = extents_at(at); break;
      case kDatatype: found.type = part(at, bytes); break;
      case kLayout:
        if (get<uint8_t>(at) != kLayoutVersion || get<uint8_t>(at + 1) != kContiguous) return;
        found.address = get<uint64_t>(at + 2);
        found.data = part(found.address, get<uint64_t>(at + 10));
        break;
      case kExternalFiles: plain = false; break;
      default: return;
    }
    if (flags & kShared) plain = false;
  });
  if (!plain || found.extents.empty() || found.type.empty() || found.data.empty()) return {};
  return found;
}

std::optional<std::string_view> PlainHdf5::text(
    std::span<const std::byte, kTextBytes> element) const {
  const auto place = static_cast<uint64_t>(element.data() - memory_.get());
  const auto length = get<uint32_t>(place);
  const auto heap = get<uint64_t>(place + 4);
  const auto wanted = get<uint32_t>(place + 12);
  if (length == 0) return std::string_view();
  if (!says(heap, "GCOL")) return {};
  const auto bytes = get<uint64_t>(heap + 8);
  for (uint64_t at = 16; at < bytes;) {
    const auto index = get<uint16_t>(heap + at);
    const auto size = get<uint64_t>(heap + at + 8);
    if (index == wanted && index != 0) {
      const auto found = part(heap + at + 16, length);
      if (length > size || found.empty()) return {};
      return std::string_view(reinterpret_cast<const char*>(found.data()), length);
    }
    if (index == 0 || size > bytes) return {};  // what is free stands last
    at += 16 + (size + 7) / 8 * 8;
  }
  return {};
}

std::optional<PlainDataset> PlainHdf5::find(uint64_t group, std::string_view name) const {
  uint64_t tree = 0, heap = 0;
  for_each_message(group, [&](uint16_t kind, uint8_t, uint64_t at, uint64_t) {
    if (kind != kSymbolTable) return;
    tree = get<uint64_t>(at);
    heap = get<uint64_t>(at + 8);
  });
  if (!says(heap, "HEAP")) return {};
  const uint64_t header = find_link(tree, get<uint64_t>(heap + 24), name);
  return header == 0 ? std::nullopt : dataset_at(header);
}

}  // namespace hanse
