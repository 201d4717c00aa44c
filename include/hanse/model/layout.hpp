// Where each tensor of a model lies in its parameter row.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/row_part.hpp"

namespace hanse {

// The number of values of a tensor. Throws ModelTooLarge where no integer holds it.
int64_t size_of(const std::vector<int64_t>& shape);

// A model's tensors take more memory than the process can hope for. make_model() names the key.
class ModelTooLarge : public InvalidArgument {
 public:
  explicit ModelTooLarge(const std::string& what) : InvalidArgument(what) {}
};

// How a network uses a matrix W under one of its names: as y = x W', as y = x W, or as a table of
// which a token is a row.
enum class MatrixUse { kDense, kTransposed, kEmbedding };

struct ParameterSlot {
  std::string name;            // "fc1.weight"
  std::vector<int64_t> shape;  // [out, in]
  int64_t offset = 0;          // first value in the row
  int64_t size = 0;            // number of values
  int64_t fan_in = 0;          // inputs of one output unit, for the initialization; 0: `start`
  float start = 0;             // value of all entries at the start, if fan_in is 0
  bool trainable = true;       // false: a buffer, which forward passes move and gradients do not
  bool frozen = false;         // neither moves it; `trainable` is false then
  std::vector<std::string> also = {};  // further names that the network has for it: tied weights
  std::map<std::string, MatrixUse> uses = {};  // of a name; without an entry kDense, or not known

  MatrixUse use_as(const std::string& called) const {
    const auto found = uses.find(called);
    return found == uses.end() ? MatrixUse::kDense : found->second;
  }
};

// Integers that belong to a model and never change, e.g. batch norm's count of batches. The row
// does not hold them.
struct CarriedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

// A tensor of a file.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// All tensors of a model, one after another, without gaps: trained, buffers, frozen.
class ParameterLayout {
 public:
  // Appends a tensor behind the present ones and returns its offset in the row.
  int64_t add(const std::string& name, const std::vector<int64_t>& shape, int64_t fan_in) {
    return append({.name = name, .shape = shape, .fan_in = fan_in});
  }
  // Appends a tensor whose values all start at `start`.
  int64_t add_constant(const std::string& name, const std::vector<int64_t>& shape, float start) {
    return append({.name = name, .shape = shape, .start = start});
  }
  // Appends a buffer. REQUIRES: no trainable tensor is added after it.
  void add_buffer(const std::string& name, const std::vector<int64_t>& shape) {
    append({.name = name, .shape = shape, .trainable = false});
  }
  // Appends a frozen tensor. REQUIRES: neither a trainable one nor a buffer is added after it.
  void add_frozen(const std::string& name, const std::vector<int64_t>& shape) {
    append({.name = name, .shape = shape, .trainable = false, .frozen = true});
  }
  // Appends `slot`, at its own offset. Throws ModelTooLarge before a row of them all is made.
  int64_t append(ParameterSlot slot);
  // Notes a further name of the tensor called `name`. REQUIRES: there is one.
  void tie(const std::string& name, const std::string& also);
  // Notes how the network uses the tensor that has this name. REQUIRES: there is one.
  void mark(const std::string& called, MatrixUse use);
  void carry(CarriedTensor tensor) { carried_.push_back(std::move(tensor)); }

  const std::vector<ParameterSlot>& slots() const { return slots_; }
  const std::vector<CarriedTensor>& carried() const { return carried_; }
  int64_t n_params() const { return n_params_; }        // P, the length of a row
  int64_t n_trainable() const { return n_trainable_; }  // values of the row before the buffers
  int64_t n_frozen() const { return n_frozen_; }        // frozen values of the row

 private:
  void require_memory();

  std::vector<ParameterSlot> slots_;
  std::vector<CarriedTensor> carried_;
  int64_t n_params_ = 0;
  int64_t n_trainable_ = 0;
  int64_t n_frozen_ = 0;
  double tested_bytes_ = 0;  // for which there was memory
};

// The slots of which a name matches one of the shell patterns (* ? [..]), in their order. Throws
// InvalidArgument, which names `key` and lists the names, for a pattern that matches none.
std::vector<ParameterSlot> matching(const std::vector<ParameterSlot>& slots,
                                    const std::vector<std::string>& patterns,
                                    const std::string& key);

// Those that gradients train.
std::vector<ParameterSlot> trainable_slots(const ParameterLayout& layout);
// Is the tensor at the slot's place among `slots`?
bool holds(const std::vector<ParameterSlot>& slots, const ParameterSlot& slot);
// Where slots, in a row's order, lie: neighbours joined.
std::vector<RowPart> joined_parts(const std::vector<ParameterSlot>& slots);

// The parts of a row whose updates are weighed apart: each layer ("fc1.weight" and "fc1.bias"
// together), or the whole row.
std::vector<RowPart> row_parts(const ParameterLayout& layout, bool layers);

}  // namespace hanse
