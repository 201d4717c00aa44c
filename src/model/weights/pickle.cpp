#include "weights/pickle.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kLongest = std::size_t{64} << 20;

// The opcodes of pickle.py that the protocols from 2 on write.
enum Code : uint8_t {
  kMarkHere = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDuplicate = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kStoredBy = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kListOf = 'l',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTupleOf = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProtocol = 0x80,
  kNewObject = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTrue = 0x88,
  kFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjectByKeys = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  Pickle run() {
    for (auto code = number<uint8_t>(); code != kStop; code = number<uint8_t>()) {
      if (!read_value(code) && !read_container(code) && !read_made(code) && !read_memo(code)) {
        refuse(fmt::format("its opcode {:#x} is not read", code));
      }
    }
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument("no state dict: its pickle is damaged or unusual: " + what, where_,
                          "write it with torch.save(model.state_dict(), path)");
  }

  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) refuse("it ends too early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("it ends within a name");
    const std::string_view text = take(end);
    take(1);
    return text;
  }

  PickleValue& push(PickleValue value) {
    pickle_.values.push_back(std::move(value));
    stack_.push_back(&pickle_.values.back());
    return pickle_.values.back();
  }
  bool push_kind(Kind kind) { return push({.kind = kind}), true; }
  bool push_integer(int64_t value) { return push({.kind = Kind::kInteger, .number = value}), true; }
  bool push_text(uint64_t bytes) { return push({.kind = Kind::kText, .text = take(bytes)}), true; }

  // A whole number of so many bytes; beyond 64 bits its value is not kept.
  bool push_long(uint64_t bytes) {
    const std::string_view digits = take(bytes);
    if (bytes > sizeof(int64_t)) return push_kind(Kind::kOther);
    const bool negative = !digits.empty() && (static_cast<uint8_t>(digits.back()) & 0x80) != 0;
    uint64_t value = negative ? ~uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), bytes);
    return push_integer(std::bit_cast<int64_t>(value));
  }

  PickleValue* pop() {
    if (stack_.empty() || stack_.back()->is(Kind::kMark)) refuse("its stack is empty");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  PickleValue& top() {
    PickleValue* value = pop();
    stack_.push_back(value);
    return *value;
  }

  // What stands above the last mark, which goes.
  std::vector<const PickleValue*> pop_to_mark() {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                   [](const PickleValue* value) { return value->is(Kind::kMark); });
    if (mark == stack_.rend()) refuse("it has no mark");
    std::vector<const PickleValue*> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }

  std::vector<const PickleValue*> pop_some(std::size_t n) {
    std::vector<const PickleValue*> items(n);
    for (std::size_t i = n; i-- > 0;) items[i] = pop();
    return items;
  }

  bool push_items(Kind kind, std::vector<const PickleValue*> items) {
    if (kind == Kind::kDictionary && items.size() % 2 != 0) refuse("a key has no value");
    return push({.kind = kind, .items = std::move(items)}), true;
  }

  // Into the container on the stack; an object of a class of somebody's keeps nothing.
  bool add(Kind kind, const std::vector<const PickleValue*>& items) {
    PickleValue& to = top();
    if (kind == Kind::kDictionary && items.size() % 2 != 0) refuse("a key has no value");
    if (to.is(kind)) to.items.insert(to.items.end(), items.begin(), items.end());
    if (!to.is(kind) && !to.is(Kind::kMade)) refuse("items are added to what is no container");
    return true;
  }

  bool read_value(uint8_t code) {
    switch (code) {
      case kProtocol:
        if (const int version = number<uint8_t>(); version < 2 || version > 5) {
          refuse(fmt::format("it is of protocol {}", version));
        }
        return true;
      case kFrame: return take(sizeof(uint64_t)), true;
      case kNone: return push_kind(Kind::kNone);
      case kTrue:
      case kFalse: return push_integer(code == kTrue ? 1 : 0);
      case kBinInt: return push_integer(number<int32_t>());
      case kBinInt1: return push_integer(number<uint8_t>());
      case kBinInt2: return push_integer(number<uint16_t>());
      case kLong1: return push_long(number<uint8_t>());
      case kLong4: return push_long(number<uint32_t>());
      case kBinFloat: return take(sizeof(double)), push_kind(Kind::kOther);
      case kShortBinString:
      case kShortBinBytes:
      case kShortBinUnicode: return push_text(number<uint8_t>());
      case kBinString:
      case kBinBytes:
      case kBinUnicode: return push_text(number<uint32_t>());
      case kBinUnicode8:
      case kBinBytes8:
      case kByteArray8: return push_text(number<uint64_t>());
      default: return false;
    }
  }

  bool read_container(uint8_t code) {
    switch (code) {
      case kMarkHere: return push_kind(Kind::kMark);
      case kPop: return stack_.empty() ? refuse("its stack is empty") : stack_.pop_back(), true;
      case kPopMark: return pop_to_mark(), true;
      case kDuplicate: return stack_.push_back(&top()), true;
      case kEmptyTuple: return push_kind(Kind::kTuple);
      case kTuple1: return push_items(Kind::kTuple, pop_some(1));
      case kTuple2: return push_items(Kind::kTuple, pop_some(2));
      case kTuple3: return push_items(Kind::kTuple, pop_some(3));
      case kTupleOf: return push_items(Kind::kTuple, pop_to_mark());
      case kEmptyList:
      case kEmptySet: return push_kind(Kind::kList);
      case kListOf:
      case kFrozenSet: return push_items(Kind::kList, pop_to_mark());
      case kAppend: return add(Kind::kList, pop_some(1));
      case kAppends:
      case kAddItems: return add(Kind::kList, pop_to_mark());
      case kEmptyDict: return push_kind(Kind::kDictionary);
      case kDict: return push_items(Kind::kDictionary, pop_to_mark());
      case kSetItem: return add(Kind::kDictionary, pop_some(2));
      case kSetItems: return add(Kind::kDictionary, pop_to_mark());
      default: return false;
    }
  }

  bool read_made(uint8_t code) {
    switch (code) {
      case kGlobal: {
        const std::string_view module = line();
        return push({.kind = Kind::kName, .module = module, .text = line()}), true;
      }
      case kStackGlobal: {
        const auto names = pop_some(2);
        return push({.kind = Kind::kName, .module = names[0]->text, .text = names[1]->text}), true;
      }
      case kReduce:
      case kNewObject: return push_made(pop_some(2));
      case kNewObjectByKeys: return push_made(pop_some(3));
      case kBuild: return pop(), top(), true;
      case kStoredBy: return push_items(Kind::kStored, pop_some(1));
      default: return false;
    }
  }

  bool push_made(std::vector<const PickleValue*> items) {
    const PickleValue &maker = *items[0], &arguments = *items[1];
    if (!arguments.is(Kind::kTuple)) refuse("arguments are no tuple");
    const bool is_ordered = maker.is_named("collections", "OrderedDict");
    if (is_ordered && arguments.items.empty()) return push_kind(Kind::kDictionary);
    return push_items(Kind::kMade, std::move(items));
  }

  bool read_memo(uint8_t code) {
    switch (code) {
      case kBinPut: return memo_[number<uint8_t>()] = &top(), true;
      case kLongBinPut: return memo_[number<uint32_t>()] = &top(), true;
      case kMemoize: return memo_[static_cast<uint32_t>(memo_.size())] = &top(), true;
      case kBinGet: return get(number<uint8_t>());
      case kLongBinGet: return get(number<uint32_t>());
      default: return false;
    }
  }

  bool get(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("it refers to nothing");
    return stack_.push_back(found->second), true;
  }

  std::string_view rest_;
  const std::string& where_;
  Pickle pickle_;
  std::vector<PickleValue*> stack_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes, const std::string& where) {
  if (bytes.size() > kLongest) {
    throw InvalidArgument(fmt::format("no state dict: a pickle of {} bytes", bytes.size()), where,
                          "write it with torch.save(model.state_dict(), path)");
  }
  require_memory(static_cast<int64_t>(bytes.size() * sizeof(PickleValue)), "its pickle may take",
                 where, "");
  return PickleMachine(bytes, where).run();
}

}  // namespace hanse
