// Zip files as torch and NumPy write them: entries as they are, a directory behind them, and its
// end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

struct ZipEntry {
  std::string name, contents;
};

// `bytes` bytes, the lowest first.
inline std::string number_bytes(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// CRC-32, a bit after the other.
inline uint32_t checksum_of(const std::string& bytes) {
  uint32_t sum = ~0U;
  for (const char byte : bytes) {
    sum ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320U : 0U);
  }
  return ~sum;
}

// An array of a .npz file, as NumPy writes it.
inline std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  const std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
  return "\x93NUMPY" + std::string("\1\0", 2) + number_bytes(header.size(), 2) + header + data;
}

// With `large` the directory's end is written once more in 64 bits.
inline std::string zip_of(const std::vector<ZipEntry>& entries, bool large) {
  std::string file, directory;
  for (const auto& [name, contents] : entries) {
    const std::string sizes = std::string(8, '\0') + number_bytes(checksum_of(contents), 4) +
                              number_bytes(contents.size(), 4) + number_bytes(contents.size(), 4) +
                              number_bytes(name.size(), 2);
    const std::string place = number_bytes(file.size(), 4);
    file += "PK\3\4" + std::string("\x14\0", 2) + sizes + std::string(2, '\0') + name + contents;
    directory +=
        "PK\1\2" + std::string("\x14\0\x14\0", 4) + sizes + std::string(12, '\0') + place + name;
  }
  const std::size_t begin = file.size();
  file += directory;
  if (large) {
    const std::string count = number_bytes(entries.size(), 8);
    const std::size_t end = file.size();
    file += "PK\6\6" + number_bytes(44, 8) + std::string(12, '\0') + count + count +
            number_bytes(directory.size(), 8) + number_bytes(begin, 8);
    file += "PK\6\7" + std::string(4, '\0') + number_bytes(end, 8) + number_bytes(1, 4);
  }
  const std::string count = number_bytes(entries.size(), 2);
  return file + "PK\5\6" + std::string(4, '\0') + count + count +
         number_bytes(directory.size(), 4) + number_bytes(begin, 4) + std::string(2, '\0');
}

}  // namespace hanse
