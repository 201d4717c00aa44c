#include "networks/state_dict.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

namespace hanse {

namespace {

// A copy of its own: a view would be written with the whole row behind it.
template <class T>
at::Tensor tensor_of(const T* values, const std::vector<int64_t>& shape) {
  return at::from_blob(const_cast<T*>(values), shape, c10::CppTypeToScalarType<T>::value).clone();
}

// What torch.save writes: one pickle, in which tensors are named by number, and the bytes of each.
// LibTorch's own pickle_save writes the dictionary's type too, which weights_only refuses.
std::string saved(const at::IValue& value) {
  std::string pickle;
  torch::jit::Pickler pickler(
      [&](const char* bytes, std::size_t size) { pickle.append(bytes, size); }, nullptr, nullptr,
      nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  std::string file;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, std::size_t size) {
    file.append(static_cast<const char*>(bytes), size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  std::size_t number = 0;
  for (const at::Tensor& tensor : pickler.tensorData()) {
    writer.writeRecord("data/" + std::to_string(number++), tensor.data_ptr(), tensor.nbytes());
  }
  writer.writeEndOfFile();
  return file;
}

}  // namespace

std::string state_dict(const ParameterLayout& layout, std::span<const float> row) {
  c10::impl::GenericDict tensors(c10::StringType::get(), c10::TensorType::get());
  for (const ParameterSlot& slot : layout.slots()) {
    const at::Tensor tensor = tensor_of(row.data() + slot.offset, slot.shape);
    tensors.insert(slot.name, tensor);
    for (const std::string& also : slot.also) tensors.insert(also, tensor);
  }
  for (const CarriedTensor& carried : layout.carried()) {
    tensors.insert(carried.name, tensor_of(carried.values.data(), carried.shape));
  }
  return saved(tensors);
}

}  // namespace hanse
