// Reading a checkpoint; each rank alone.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "checkpoint_format.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/checkpoint.hpp"

namespace hanse {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& damage) {
  throw IoError("the checkpoint cannot be used: " + damage, file);
}

StateArray read_array(const hdf5::Dataset& dataset, const std::string& file) {
  if (dataset.type() == hdf5::kTypeOf<int64_t>) return dataset.values<int64_t>();
  if (dataset.type() == hdf5::kTypeOf<double>) return dataset.values<double>();
  if (dataset.type() == hdf5::kTypeOf<float>) return dataset.values<float>();
  if (dataset.is_text()) return dataset.text();
  refuse(file, dataset.name() + " has a type that no state has");
}

// The matrix of client states and its rows' clients.
struct ClientRows {
  std::vector<int64_t> ids;
  hdf5::Dataset values;
  int64_t width;
};

ClientRows open_rows(const hdf5::File& file, const std::string& path) {
  std::vector<int64_t> ids = file.dataset(kClientIds).values<int64_t>();
  hdf5::Dataset values = file.dataset(kClientRows);
  if (values.shape().size() != 2 || values.shape()[0] != static_cast<int64_t>(ids.size())) {
    refuse(path, kClientIds + " and " + kClientRows + " have different lengths");
  }
  const int64_t width = values.shape()[1];
  return {std::move(ids), std::move(values), width};
}

// Reads the wanted rows: long ones one by one, short ones with their neighbours, in pieces.
void read_rows(const ClientRows& rows, const std::vector<bool>& wanted, ClientStateStore& clients) {
  const auto count = static_cast<int64_t>(rows.ids.size());
  const bool is_short = rows.width > 0 && rows.width < kShortRowFloats;
  const int64_t step = is_short ? kPieceFloats / rows.width : 1;
  std::vector<float> piece;
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t end = std::min(begin + step, count);
    if (std::find(wanted.begin() + begin, wanted.begin() + end, true) == wanted.begin() + end) {
      continue;
    }
    int64_t column = 0;
    do {
      const int64_t columns = std::min(kPieceFloats, rows.width - column);
      piece.resize(static_cast<std::size_t>((end - begin) * columns));
      rows.values.read_block({begin, end - begin, column, columns}, piece.data());
      for (int64_t row = begin; row < end; ++row) {
        if (!wanted[static_cast<std::size_t>(row)]) continue;
        const auto out = clients.row(rows.ids[static_cast<std::size_t>(row)]);
        std::copy_n(piece.begin() + (row - begin) * columns, columns, out.begin() + column);
      }
      column += columns;
    } while (column < rows.width);
  }
}

}  // namespace

State read_checkpoint_state(const std::string& path) {
  if (const auto damage = checkpoint_damage(path)) refuse(path, *damage);
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  State state;
  if (!file.contains(kStateGroup)) return state;
  for (const auto& name : file.dataset_names(kStateGroup)) {
    state.insert(name.substr(kStateGroup.size() + 1), read_array(file.dataset(name), path));
  }
  return state;
}

void read_checkpoint_clients(const std::string& path, const std::function<bool(int64_t)>& mine,
                             ClientStateStore& clients) {
  if (const auto damage = seal_fault(path, kCheckpointSeal)) refuse(path, *damage);
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  if (!file.contains("/clients")) return;
  const ClientRows rows = open_rows(file, path);
  if (rows.width != clients.width()) {
    refuse(path, fmt::format("its client states have {} floats, this job's have {}", rows.width,
                             clients.width()));
  }
  std::vector<bool> wanted;
  wanted.reserve(rows.ids.size());
  for (const int64_t client : rows.ids) wanted.push_back(mine(client));
  read_rows(rows, wanted, clients);
}

}  // namespace hanse
