// Files of weights as torch.save and safetensors write them.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "support/zip_file.hpp"

namespace hanse {

// Opcodes of a text, as pickles of protocol 2 have it.
inline std::string pickled(const std::string& text) {
  return "X" + number_bytes(text.size(), 4) + text;
}

inline std::string pickled(const std::vector<int64_t>& numbers) {
  std::string opcodes = "(";
  for (const int64_t number : numbers) {
    opcodes += "J" + number_bytes(static_cast<uint64_t>(number), 4);
  }
  return opcodes + "t";
}

const std::string kPickledOrdered = "ccollections\nOrderedDict\n)R";

// A tensor in a storage: what torch.save writes of it.
struct PickledTensor {
  std::string key = "0", storage = "FloatStorage";
  int64_t stored = 4, offset = 0;
  std::vector<int64_t> shape = {2, 2}, strides = {2, 1};
};

inline std::string pickled(const PickledTensor& t) {
  const auto number = [](int64_t value) {
    return "J" + number_bytes(static_cast<uint64_t>(value), 4);
  };
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled("storage") + "ctorch\n" + t.storage +
         "\n" + pickled(t.key) + pickled("cpu") + number(t.stored) + "tQ" + number(t.offset) +
         pickled(t.shape) + pickled(t.strides) + "\x89" + kPickledOrdered + "tR";
}

inline std::string pickled_parameter(const std::string& tensor) {
  return "ctorch._utils\n_rebuild_parameter\n(" + tensor + "\x88" + kPickledOrdered + "tR";
}

// A dictionary of opcodes by names.
inline std::string pickled(const std::vector<std::pair<std::string, std::string>>& values,
                           bool ordered = true) {
  std::string opcodes = (ordered ? kPickledOrdered : "}") + std::string("(");
  for (const auto& [name, value] : values) opcodes += pickled(name) + value;
  return opcodes + "u";
}

template <class T>
std::string bytes_of_numbers(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// The zip file of a value's opcodes and of storages 0, 1, ...
inline std::string torch_file(const std::string& opcodes,
                              const std::vector<std::string>& storages) {
  std::vector<ZipEntry> entries = {{"net/data.pkl", "\x80\x02" + opcodes + "."}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    entries.push_back({"net/data/" + std::to_string(i), storages[i]});
  }
  return zip_of(entries, false);
}

inline std::string safetensors_file(const std::string& header, const std::string& bytes) {
  return number_bytes(header.size(), 8) + header + bytes;
}

}  // namespace hanse
