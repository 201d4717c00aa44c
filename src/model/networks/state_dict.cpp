#include "networks/state_dict.hpp"

#include <fstream>
#include <iterator>

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "hanse/base/error.hpp"
#include "hanse/base/zip_directory.hpp"

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
    tensors.insert(slot.name, tensor_of(row.data() + slot.offset, slot.shape));
  }
  for (const CarriedTensor& carried : layout.carried()) {
    tensors.insert(carried.name, tensor_of(carried.values.data(), carried.shape));
  }
  return saved(tensors);
}

std::vector<NamedTensor> read_state_dict(const std::string& path) {
  check_archive({path, "state_dict", "save it with torch.save(model.state_dict(), path)"});
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<NamedTensor> tensors;
  try {
    for (const auto& entry : torch::jit::pickle_load(bytes).toGenericDict()) {
      const at::Tensor tensor = entry.value().toTensor();
      if (!tensor.is_floating_point()) continue;
      const at::Tensor values = tensor.to(at::kFloat).contiguous();
      const float* first = values.data_ptr<float>();
      tensors.push_back(
          {entry.key().toStringRef(), tensor.sizes().vec(), {first, first + values.numel()}});
    }
  } catch (const std::exception&) {  // an ordered dictionary, for one
    throw InvalidArgument("no plain dictionary of tensors, by their names, is in the file", path,
                          "write it with torch.save(dict(model.state_dict()), path)");
  }
  return tensors;
}

}  // namespace hanse
