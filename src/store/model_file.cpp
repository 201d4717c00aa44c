#include "hanse/store/model_file.hpp"

#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>

#include "hanse/store/atomic_file.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/state_dict.hpp"
#include "hdf5_file.hpp"

namespace hanse {

namespace {

const std::string kRow = "/row";

// Room for the whole file. HDF5's own part is bounded from above: about 1 KiB a dataset.
int64_t estimated_bytes(const ParameterLayout& layout) {
  const std::size_t tensors = layout.slots().size() + layout.carried().size();
  std::size_t integers = 0;
  for (const auto& tensor : layout.carried()) integers += tensor.values.size();
  return 65536 + static_cast<int64_t>(2048 * tensors + 8 * integers) + 8 * layout.n_params();
}

void put(hdf5::File& file, const std::string& name, hdf5::Kind kind,
         const std::vector<int64_t>& shape, const void* data) {
  hdf5::Dataset dataset = file.create_dataset(name, kind, shape);
  dataset.write(data);
  dataset.close();
}

std::vector<float> read_row(const std::string& path, int64_t n_params) {
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  const hdf5::Dataset dataset = file.dataset(kRow);
  if (dataset.kind() != hdf5::Kind::kFloat || dataset.shape().size() != 1) {
    throw InvalidArgument(kRow + " is no row of float32", path);
  }
  if (dataset.size() != n_params) {
    throw InvalidArgument(
        fmt::format("{} has {} parameters, the model has {}", kRow, dataset.size(), n_params), path,
        "the file was written by a job with another model");
  }
  std::vector<float> row(static_cast<std::size_t>(n_params));
  dataset.read(row.data());
  return row;
}

}  // namespace

void write_state_dict(const std::string& path, const ParameterLayout& layout,
                      std::span<const float> row) {
  const std::string bytes = state_dict(layout, row);
  TemporaryFile temporary(path + ".tmp");
  Descriptor(temporary.path(), O_WRONLY).write_at(0, bytes);
  temporary.publish(path);
}

void write_model(const std::string& path, const ParameterLayout& layout,
                 std::span<const float> row) {
  if (static_cast<int64_t>(row.size()) != layout.n_params()) {
    throw std::logic_error(fmt::format("write_model: a row of {} for a layout of {} parameters",
                                       row.size(), layout.n_params()));
  }
  TemporaryFile temporary(path + ".tmp");
  temporary.require_room(estimated_bytes(layout));
  {
    const hdf5::Section section;
    hdf5::File file = hdf5::File::create(temporary.path(), 0);
    for (const auto& slot : layout.slots()) {
      put(file, "/" + slot.name, hdf5::Kind::kFloat, slot.shape, row.data() + slot.offset);
    }
    for (const auto& tensor : layout.carried()) {
      put(file, "/" + tensor.name, hdf5::Kind::kInt64, tensor.shape, tensor.values.data());
    }
    put(file, kRow, hdf5::Kind::kFloat, {layout.n_params()}, row.data());
    file.close();
  }
  temporary.publish(path);
}

std::vector<float> read_model_row(const std::string& path, int64_t n_params) {
  try {
    return read_row(path, n_params);
  } catch (const IoError& error) {
    throw InvalidArgument(std::string("no usable model file: ") + error.what());
  }
}

}  // namespace hanse
