// The zip file of torch.save: a pickle, in which tensors are named by numbers, and the bytes of
// each number.
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/base/zip_directory.hpp"
#include "weights/pickle.hpp"
#include "weights/readers.hpp"

namespace hanse {

namespace {

using Kind = PickleValue::Kind;

constexpr const char* kSaveHint = "write it with torch.save(model.state_dict(), path)";

// The value itself, without what LibTorch notes of its type.
const PickleValue& untagged(const PickleValue& value) {
  if (!value.is(Kind::kMade) || value.items[1]->items.empty()) return value;
  const bool is_tag = value.items[0]->is_named("torch.jit._pickle", "restore_type_tag");
  return is_tag ? *value.items[1]->items[0] : value;
}

bool is_made_by(const PickleValue& value, std::initializer_list<std::string_view> functions) {
  if (!value.is(Kind::kMade)) return false;
  for (const std::string_view function : functions) {
    if (value.items[0]->is_named("torch._utils", function)) return true;
  }
  return false;
}

// The tensor of a parameter; the value itself, if it is none. Arguments are older than what is made
// of them: the chain ends.
const PickleValue& unwrapped(const PickleValue& value) {
  const PickleValue* inner = &value;
  while (is_made_by(*inner, {"_rebuild_parameter", "_rebuild_parameter_with_state"}) &&
         !inner->items[1]->items.empty()) {
    inner = inner->items[1]->items[0];
  }
  return *inner;
}

bool is_tensor(const PickleValue& value) {
  return is_made_by(unwrapped(value), {"_rebuild_tensor", "_rebuild_tensor_v2"});
}

bool holds_tensors(const PickleValue& value) {
  if (!value.is(Kind::kDictionary)) return false;
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    if (value.items[i]->is(Kind::kText) && is_tensor(*value.items[i + 1])) return true;
  }
  return false;
}

std::string class_name(const PickleValue& value) {
  const PickleValue& maker = value.is(Kind::kMade) ? *value.items[0] : value;
  if (maker.is(Kind::kName)) return printable(maker.module) + "." + printable(maker.text);
  return "another type";
}

std::optional<Element> element_of(const PickleValue& storage) {
  if (!storage.is(Kind::kName) || (storage.module != "torch" && storage.module != "torch.cuda")) {
    return {};
  }
  static const std::unordered_map<std::string_view, Element> elements = {
      {"FloatStorage", Element::kFloat},   {"DoubleStorage", Element::kDouble},
      {"HalfStorage", Element::kHalf},     {"BFloat16Storage", Element::kBfloat16},
      {"LongStorage", Element::kInteger},  {"IntStorage", Element::kInteger},
      {"ShortStorage", Element::kInteger}, {"CharStorage", Element::kInteger},
      {"ByteStorage", Element::kInteger},  {"BoolStorage", Element::kInteger}};
  const auto found = elements.find(storage.text);
  if (found == elements.end()) return {};
  return found->second;
}

// "int8" for CharStorage.
std::string type_of_storage(std::string_view storage) {
  static const std::unordered_map<std::string_view, std::string> names = {
      {"LongStorage", "int64"}, {"IntStorage", "int32"},  {"ShortStorage", "int16"},
      {"CharStorage", "int8"},  {"ByteStorage", "uint8"}, {"BoolStorage", "bool"}};
  return names.at(storage);
}

class TorchFile {
 public:
  explicit TorchFile(const std::string& path)
      : source_{path, "state dict", kSaveHint}, file_(path) {
    for (const ZipMember& member : zip_directory(file_.view(), source_)) {
      if (member.name.ends_with("/data.pkl")) {
        if (!folder_.empty()) refuse("it has two pickles");
        folder_ = member.name.substr(0, member.name.size() - 8);
      }
      if (!members_.emplace(member.name, member).second) {
        refuse(printable(member.name) + " stands in it twice");
      }
    }
    if (folder_.empty()) refuse("the zip file has no data.pkl");
    if (const auto order = members_.find(std::string(folder_) + "byteorder");
        order != members_.end() && bytes_of_member(order->second) != "little") {
      refuse("its numbers have the highest byte first");
    }
  }

  WeightFile read() {
    const std::string_view bytes = bytes_of_member(member("data.pkl"));
    const Pickle pickle = read_pickle(bytes, source_.path);
    const PickleValue& tensors = dictionary(untagged(*pickle.root));
    TensorsOfFile found(source_.path);
    for (std::size_t i = 0; i + 1 < tensors.items.size(); i += 2) {
      const PickleValue &key = *tensors.items[i], &value = *tensors.items[i + 1];
      if (!key.is(Kind::kText)) continue;
      add(std::string(key.text), unwrapped(value), found);
    }
    return found.read();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument("no state dict: " + what, source_.path, source_.hint);
  }

  const ZipMember& member(const std::string& name) const {
    const auto found = members_.find(std::string(folder_) + name);
    if (found == members_.end()) refuse("it has no " + printable(name));
    return found->second;
  }

  std::string_view bytes_of_member(const ZipMember& member) const {
    if (member.method != 0 || member.packed != member.unpacked) {
      refuse(printable(member.name) + " is compressed");
    }
    const std::string_view bytes = packed_bytes(file_.view(), member, source_);
    const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    if (sum != member.checksum) refuse(printable(member.name) + " is damaged");
    return bytes;
  }

  // The one dictionary of tensors: the file's value, or among its values.
  const PickleValue& dictionary(const PickleValue& root) const {
    if (holds_tensors(root)) return root;
    if (!root.is(Kind::kDictionary)) {
      refuse(root.is(Kind::kMade)
                 ? fmt::format("the file holds {}, no dictionary of tensors", class_name(root))
                 : "the file holds no dictionary");
    }
    const PickleValue* chosen = nullptr;
    std::vector<std::string> names, others;
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const PickleValue& value = untagged(*root.items[i + 1]);
      const std::string name = printable(root.items[i]->text);
      if (!holds_tensors(value)) {
        others.push_back(name);
        continue;
      }
      names.push_back(name);
      chosen = &value;
    }
    if (names.size() == 1) return *chosen;
    if (names.empty()) refuse("no tensors by their names are in it, but: " + join(others, ", "));
    refuse("it has several dictionaries of tensors: " + join(names, ", "));
  }

  void add(const std::string& name, const PickleValue& value, TensorsOfFile& found) {
    if (!is_tensor(value)) {
      if (!value.is(Kind::kMade)) return;  // a number of somebody's, or nothing
      refuse(
          fmt::format("{} is made by {}, which is not read", printable(name), class_name(value)));
    }
    const auto& arguments = value.items[1]->items;
    const auto bad = [&](const char* what) {
      refuse(fmt::format("{} of {} is damaged", what, printable(name)));
    };
    if (arguments.size() < 4 || !arguments[0]->is(Kind::kStored)) bad("the storage");
    const auto& id = arguments[0]->items[0]->items;  // "storage", class, key, device, values
    if (id.size() < 5 || !id[2]->is(Kind::kText) || !id[4]->is(Kind::kInteger)) bad("the storage");
    const auto element = element_of(*id[1]);
    if (!element) {
      refuse(fmt::format("{} has numbers of {}, which are not read", printable(name),
                         class_name(*id[1])));
    }
    if (*element == Element::kInteger) return found.leave_out(name, type_of_storage(id[1]->text));
    StridedValues values{
        .element = *element, .shape = integers(*arguments[2]), .strides = integers(*arguments[3])};
    const int64_t offset = arguments[1]->number, stored = id[4]->number;
    const std::string_view bytes = storage(std::string(id[2]->text));
    if (stored < 0 || stored > std::ssize(bytes) / bytes_of(*element)) bad("the storage");
    if (!lies_within(values, offset, stored)) bad("the shape");
    values.bytes = bytes.data() + offset * bytes_of(*element);
    found.add(name,
              fmt::format("{} {} {} {} {}", id[2]->text, static_cast<int>(*element), offset,
                          values.shape, values.strides),
              std::move(values));
  }

  static std::vector<int64_t> integers(const PickleValue& tuple) {
    std::vector<int64_t> numbers;
    for (const PickleValue* item : tuple.items) {
      numbers.push_back(item->is(Kind::kInteger) ? item->number : -1);
    }
    return numbers;
  }

  // Do all values lie in the storage, which has at least as many?
  static bool lies_within(const StridedValues& values, int64_t offset, int64_t stored) {
    const int64_t count = count_of(values.shape);
    if (values.shape.size() != values.strides.size() || count < 0 || count > stored) return false;
    if (offset < 0 || offset > stored) return false;
    if (count == 0) return true;
    __int128 last = offset;
    for (std::size_t axis = 0; axis < values.shape.size(); ++axis) {
      if (values.strides[axis] < 0) return false;
      last += static_cast<__int128>(values.shape[axis] - 1) * values.strides[axis];
      if (last >= stored) return false;
    }
    return last < stored;
  }

  std::string_view storage(const std::string& key) {
    const auto [place, is_new] = storages_.try_emplace(key);
    if (is_new) place->second = bytes_of_member(member("data/" + key));
    return place->second;
  }

  ZipSource source_;
  FileBytes file_;
  std::string_view folder_;  // with its slash
  std::unordered_map<std::string, ZipMember> members_;
  std::unordered_map<std::string, std::string_view> storages_;  // whose checksums are right
};

}  // namespace

WeightFile read_torch_file(const std::string& path) { return TorchFile(path).read(); }

}  // namespace hanse
