// Reading a checkpoint; each rank alone.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "checkpoint_format.hpp"
#include "hanse/base/error.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hdf5_file.hpp"

namespace hanse {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& damage) {
  throw IoError("the checkpoint cannot be used: " + damage, file);
}

template <class T>
std::vector<T> read_values(const hdf5::Dataset& dataset) {
  std::vector<T> values(static_cast<std::size_t>(dataset.size()));
  dataset.read(values.data());
  return values;
}

StateArray read_array(const hdf5::Dataset& dataset, const std::string& file) {
  switch (dataset.kind()) {
    case hdf5::Kind::kInt64: return read_values<int64_t>(dataset);
    case hdf5::Kind::kDouble: return read_values<double>(dataset);
    case hdf5::Kind::kFloat: return read_values<float>(dataset);
    case hdf5::Kind::kText: {
      std::string text(static_cast<std::size_t>(dataset.size()), '\0');
      dataset.read(text.data());
      return text;
    }
    case hdf5::Kind::kOther: break;
  }
  refuse(file, dataset.name() + " has a type that no state has");
}

// The matrix of client states and whose its rows are.
struct ClientRows {
  std::vector<int64_t> ids;
  hdf5::Dataset values;
  int64_t width;
};

ClientRows open_rows(const hdf5::File& file, const std::string& path) {
  std::vector<int64_t> ids = read_values<int64_t>(file.dataset(kClientIds));
  hdf5::Dataset values = file.dataset(kClientRows);
  if (values.shape().size() != 2 || values.shape()[0] != static_cast<int64_t>(ids.size())) {
    refuse(path, kClientIds + " and " + kClientRows + " have different lengths");
  }
  const int64_t width = values.shape()[1];
  return {std::move(ids), std::move(values), width};
}

void read_row(const ClientRows& rows, int64_t row, std::span<float> out) {
  for (int64_t column = 0; column < rows.width; column += kPieceFloats) {
    const int64_t columns = std::min(kPieceFloats, rows.width - column);
    rows.values.read_block({row, 1, column, columns}, out.data() + column);
  }
}

// Rows [begin, end), all at once.
void read_short_rows(const ClientRows& rows, int64_t begin, int64_t end,
                     const std::vector<bool>& wanted, ClientStateStore& clients) {
  std::vector<float> piece(static_cast<std::size_t>((end - begin) * rows.width));
  rows.values.read_block({begin, end - begin, 0, rows.width}, piece.data());
  for (int64_t row = begin; row < end; ++row) {
    const auto index = static_cast<std::size_t>(row);
    if (!wanted[index]) continue;
    const auto out = clients.row(rows.ids[index]);
    std::copy_n(piece.begin() + (row - begin) * rows.width, rows.width, out.begin());
  }
}

void read_rows(const ClientRows& rows, const std::vector<bool>& wanted, ClientStateStore& clients) {
  const auto count = static_cast<int64_t>(rows.ids.size());
  const bool is_short = rows.width > 0 && rows.width < kShortRowFloats;
  const int64_t step = is_short ? kPieceFloats / rows.width : 1;
  for (int64_t row = 0; row < count; row += step) {
    const int64_t end = std::min(row + step, count);
    if (std::find(wanted.begin() + row, wanted.begin() + end, true) == wanted.begin() + end) {
      continue;
    }
    if (is_short) {
      read_short_rows(rows, row, end, wanted, clients);
    } else {
      read_row(rows, row, clients.row(rows.ids[static_cast<std::size_t>(row)]));
    }
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
  Seal seal;
  if (const auto damage = check_seal(path, seal)) refuse(path, *damage);
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
