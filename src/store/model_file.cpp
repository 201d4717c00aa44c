#include "hanse/store/model_file.hpp"

#include <algorithm>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/seal.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace {

// Room for the whole file. HDF5's own part is bounded from above: about 1 KiB a dataset.
int64_t estimated_bytes(const ParameterLayout& layout) {
  const std::size_t tensors = layout.slots().size() + layout.carried().size();
  std::size_t integers = 0;
  for (const auto& tensor : layout.carried()) integers += tensor.values.size();
  return 65536 + static_cast<int64_t>(2048 * tensors + 8 * integers) + 8 * layout.n_params();
}

// "int8", "float64"
std::string type_name(const hdf5::Type& type) {
  switch (type.kind) {
    case hdf5::Kind::kInteger:
      return fmt::format("{}int{}", type.is_signed ? "" : "u", 8 * type.bytes);
    case hdf5::Kind::kFloat: return fmt::format("float{}", 8 * type.bytes);
    default: return "no number";
  }
}

}  // namespace

void write_model(const std::string& path, const ParameterLayout& layout, std::span<const float> row,
                 const std::string& features, float adapter_scale) {
  if (static_cast<int64_t>(row.size()) != layout.n_params()) {
    throw std::logic_error(fmt::format("write_model: a row of {} for a layout of {} parameters",
                                       row.size(), layout.n_params()));
  }
  TemporaryFile temporary(temporary_beside(path));
  temporary.require_room(estimated_bytes(layout));
  {
    const hdf5::Section section;
    hdf5::File file = hdf5::File::create(temporary.path(), kSealBytes);
    for (const auto& slot : layout.slots()) {
      file.write("/" + slot.name, slot.shape, row.data() + slot.offset);
    }
    for (const auto& tensor : layout.carried()) {
      file.write("/" + tensor.name, tensor.shape, tensor.values.data());
    }
    file.write("/row", {layout.n_params()}, row.data());
    if (layout.n_frozen() > 0) file.write_attribute("frozen", layout.n_frozen());
    const bool has_adapters = std::ranges::any_of(
        layout.slots(), [](const ParameterSlot& slot) { return slot.name.ends_with(".lora_A"); });
    if (has_adapters && adapter_scale != 1) {
      file.write_attribute("adapter_scale", fmt::format("{:.17g}", adapter_scale));
    }
    if (!features.empty() && std::ssize(features) <= kLongestFeatures) {
      file.write_attribute("features", features);
    }
    file.close();
  }
  Descriptor(temporary.path(), O_RDWR).write_at(0, seal_of(temporary.path(), kModelSeal));
  temporary.publish(path);
}

WeightFile read_model(const std::string& path) {
  if (const auto damage = damage_if_sealed(path, kModelSeal)) throw InvalidArgument(*damage, path);
  WeightFile model;
  try {
    const hdf5::Section section;
    const hdf5::File file = hdf5::File::open_to_read(path);
    if (file.has_attribute("adapter_scale")) {
      if (const auto text = file.read_text_attribute("adapter_scale")) {
        model.adapter_scale = parse_number(*text);
      }
    }
    for (const std::string& name : file.dataset_names("/")) {
      const hdf5::Dataset dataset = file.dataset(name);
      if (name == "/row") continue;
      if (dataset.type() == hdf5::kTypeOf<float>) {
        model.tensors.push_back({name.substr(1), dataset.shape(), dataset.values<float>()});
      } else {
        model.left_out[name.substr(1)] = type_name(dataset.type());
      }
    }
  } catch (const IoError& error) {
    throw InvalidArgument(std::string("no readable model: ") + error.what(), "",
                          "a model.h5 of a run, or a state dict of torch.save");
  }
  return model;
}

}  // namespace hanse
