#include "weights/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "weights/readers.hpp"

namespace hanse {

namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8, kLongestHeader = 100'000'000;  // the format's own limit
constexpr const char* kHint = "write it with safetensors.torch.save_file(model.state_dict(), path)";
constexpr const char* kNotes = "__metadata__";

// Bytes of a value, and what it is; nothing: no type of the format that is read.
std::optional<std::pair<int64_t, Element>> type_called(const std::string& name) {
  static const std::map<std::string, std::pair<int64_t, Element>> types = {
      {"F64", {8, Element::kDouble}},  {"F32", {4, Element::kFloat}},
      {"F16", {2, Element::kHalf}},    {"BF16", {2, Element::kBfloat16}},
      {"I64", {8, Element::kInteger}}, {"U64", {8, Element::kInteger}},
      {"I32", {4, Element::kInteger}}, {"U32", {4, Element::kInteger}},
      {"I16", {2, Element::kInteger}}, {"U16", {2, Element::kInteger}},
      {"I8", {1, Element::kInteger}},  {"U8", {1, Element::kInteger}},
      {"BOOL", {1, Element::kInteger}}};
  const auto found = types.find(name);
  if (found == types.end()) return {};
  return found->second;
}

// "int8" for I8.
std::string type_word(const std::string& type) {
  if (type == "BOOL") return "bool";
  return (type[0] == 'U' ? "uint" : "int") + type.substr(1);
}

class Header {
 public:
  Header(std::string_view all, const std::string& path, const std::string& hint)
      : path_(path), hint_(hint) {
    uint64_t length = 0;
    if (all.size() < kLengthBytes) refuse("it has no header");
    std::memcpy(&length, all.data(), kLengthBytes);
    if (length > kLongestHeader || length > all.size() - kLengthBytes) {
      refuse(fmt::format("it promises a header of {} bytes", length));
    }
    require_memory(static_cast<int64_t>(length) * 32, "its header may take", path, "");
    header_ = json::parse(all.substr(kLengthBytes, length), nullptr, /*allow_exceptions=*/false);
    if (!header_.is_object()) refuse("its header is no JSON");
    bytes_ = all.substr(kLengthBytes + length);
  }

  std::vector<StoredTensor> tensors() const {
    std::vector<StoredTensor> found;
    std::vector<std::pair<int64_t, int64_t>> places;
    for (const auto& [name, entry] : header_.items()) {
      if (name == kNotes) continue;
      found.push_back(tensor(name, entry));
      const int64_t first = found.back().bytes.data() - bytes_.data();
      places.emplace_back(first, first + std::ssize(found.back().bytes));
    }
    require_no_gaps(std::move(places));
    return found;
  }

  std::map<std::string, std::string> notes() const {
    std::map<std::string, std::string> found;
    const auto notes = header_.find(kNotes);
    if (notes == header_.end() || !notes->is_object()) return found;
    for (const auto& [name, value] : notes->items()) {
      if (value.is_string()) found[name] = value.get<std::string>();
    }
    return found;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument("no safetensors: " + what, path_, hint_);
  }

  std::vector<int64_t> numbers(const std::string& name, const json& entry, const char* key) const {
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_array()) {
      refuse(fmt::format("{} has no {}", printable(name), key));
    }
    std::vector<int64_t> values;
    for (const json& value : *found) {
      const bool is_good = value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
      if (!is_good) refuse(fmt::format("{} of {} is damaged", key, printable(name)));
      values.push_back(value.get<int64_t>());
    }
    return values;
  }

  StoredTensor tensor(const std::string& name, const json& entry) const {
    const auto dtype = entry.is_object() ? entry.find("dtype") : entry.end();
    if (dtype == entry.end() || !dtype->is_string()) refuse(printable(name) + " has no dtype");
    const auto type = type_called(dtype->get<std::string>());
    if (!type) {
      refuse(fmt::format("{} has numbers of type {}, which are not read", printable(name),
                         printable(dtype->get<std::string>())));
    }
    const int64_t bytes = type->first;
    const std::vector<int64_t> shape = numbers(name, entry, "shape");
    const std::vector<int64_t> place = numbers(name, entry, "data_offsets");
    const int64_t count = count_of(shape);
    const bool lies_within =
        place.size() == 2 && place[0] <= place[1] && place[1] <= std::ssize(bytes_);
    if (!lies_within || count < 0 || count != (place[1] - place[0]) / bytes ||
        (place[1] - place[0]) % bytes != 0) {
      refuse(fmt::format("shape and data_offsets of {} do not fit", printable(name)));
    }
    return {name, dtype->get<std::string>(), shape,
            bytes_.substr(to_index(place[0]), to_index(place[1] - place[0]))};
  }

  void require_no_gaps(std::vector<std::pair<int64_t, int64_t>> places) const {
    std::ranges::sort(places);
    int64_t end = 0;
    for (const auto& [first, last] : places) {
      if (first != end) refuse(fmt::format("its tensors do not meet at byte {}", end));
      end = last;
    }
    if (end != std::ssize(bytes_)) refuse(fmt::format("its tensors end at byte {}", end));
  }

  const std::string &path_, &hint_;
  json header_;
  std::string_view bytes_;  // of the tensors
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, const std::string& hint) : file_(path) {
  const Header header(file_.view(), path, hint);
  tensors_ = header.tensors();
  notes_ = header.notes();
}

WeightFile read_safetensors(const std::string& path) {
  const SafetensorsFile stored(path, kHint);
  TensorsOfFile found(path);
  std::set<std::string> names;
  for (const StoredTensor& tensor : stored.tensors()) {
    const Element element = type_called(tensor.type)->second;
    if (element == Element::kInteger) {
      found.leave_out(tensor.name, type_word(tensor.type));
      continue;
    }
    names.insert(tensor.name);
    found.add(tensor.name, tensor.name,
              {.element = element,
               .bytes = tensor.bytes.data(),
               .shape = tensor.shape,
               .strides = dense_strides(tensor.shape)});
  }
  WeightFile file = found.read();
  // save_model() of safetensors notes the further names of a tensor.
  for (const auto& [name, first] : stored.notes()) {
    if (!names.contains(name) && names.contains(first)) file.same[name] = first;
  }
  return file;
}

std::string safetensors(const ParameterLayout& layout, std::span<const float> row) {
  nlohmann::ordered_json header = {{kNotes, {{"format", "pt"}}}};
  std::string bytes;
  const auto add = [&](const std::string& name, const char* type, const std::vector<int64_t>& shape,
                       const void* values, std::size_t size) {
    const std::size_t begin = bytes.size();
    bytes.append(static_cast<const char*>(values), size);
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, bytes.size()}}};
  };
  for (const CarriedTensor& carried : layout.carried()) {
    add(carried.name, "I64", carried.shape, carried.values.data(), carried.values.size() * 8);
  }
  for (const ParameterSlot& slot : layout.slots()) {
    const auto add_as = [&](const std::string& name) {
      add(name, "F32", slot.shape, row.data() + slot.offset, to_index(slot.size) * 4);
    };
    add_as(slot.name);
    std::ranges::for_each(slot.also, add_as);
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text + bytes;
}

}  // namespace hanse
