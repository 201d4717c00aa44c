// Python's pickles as data: values and the names of what would make objects of them. No object is
// made, nothing is looked up and nothing runs.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace hanse {

struct PickleValue {
  enum class Kind {
    kNone,
    kMark,
    kInteger,     // a bool, too
    kText,        // bytes, too
    kTuple,       // items
    kList,        // items; a set, too
    kDictionary,  // items: key, value, key, value ...
    kName,        // of a class or a function: module, text
    kMade,        // items: what makes it (kName, or any value), its arguments
    kStored,      // items: what persistent_id returned
    kOther,       // a number that is none of the above
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string_view module, text;
  std::vector<const PickleValue*> items;

  bool is(Kind other) const { return kind == other; }
  bool is_named(std::string_view of_module, std::string_view name) const {
    return kind == Kind::kName && module == of_module && text == name;
  }
};

struct Pickle {
  std::deque<PickleValue> values;  // all of them
  const PickleValue* root = nullptr;
};

// Reads a pickle of protocols 2 to 5 in memory, which must outlive the result. OrderedDict without
// arguments is a dictionary; state of objects (__setstate__) is left out. Throws InvalidArgument,
// which names `where`: damaged, or longer than any dictionary of tensors.
// Cost: about 100 bytes of memory for each byte, at most.
Pickle read_pickle(std::string_view bytes, const std::string& where);

}  // namespace hanse
