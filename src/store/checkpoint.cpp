// The files of checkpoints: their names and seals, and the newest. Reading one, each rank alone,
// and writing one. Rank 0 lays the file out and writes the server's state; then every rank writes
// its clients' rows into place; then rank 0 seals and publishes the file. Between the steps the
// ranks agree that the step before succeeded everywhere.
#include "hanse/store/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "checkpoint_format.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

const std::string kPrefix = "round-";
const std::string kSuffix = ".h5";
const std::string kTemporarySuffix = ".h5.tmp";

// File names in the folder; none if it is missing.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    names.push_back(it->path().filename().string());
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    throw IoError("cannot list the folder: " + code.message(), folder);
  }
  return names;
}

// The folder's checkpoints, newest first.
std::vector<FoundCheckpoint> checkpoints_in(const std::string& folder) {
  std::vector<FoundCheckpoint> found;
  for (const auto& name : names_in(folder)) {
    if (const auto round = round_of_name(name)) found.push_back({folder + "/" + name, *round});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.round > b.round; });
  return found;
}

void remove_file(const std::string& file) {
  std::error_code code;
  fs::remove(file, code);
  if (code) throw IoError("cannot remove the file: " + code.message(), file);
}

int64_t bytes_of(const StateArray& array) {
  return std::visit(
      [](const auto& values) {
        return static_cast<int64_t>(values.size() * sizeof(*values.data()));
      },
      array);
}

// Room for the whole file. HDF5's own part is bounded from above: about 1 KiB a dataset.
int64_t estimated_bytes(const State& server, const Directory& directory) {
  int64_t bytes = (int64_t{64} << 10) + directory.bytes();
  for (const auto& [name, array] : server.arrays()) bytes += 2048 + bytes_of(array);
  return bytes;
}

// Writes everything but the clients' rows, whose place is reserved on the disk, and returns the
// file's length. A full disk shows here, before HDF5 has anything in flight: it does not report
// every failed write.
int64_t write_server_part(TemporaryFile& temporary, int64_t round, const State& server,
                          const Directory& directory) {
  temporary.require_room(estimated_bytes(server, directory));
  {
    const hdf5::Section section;
    hdf5::File file = hdf5::File::create(temporary.path(), kSealBytes);
    file.write_attribute("format", kCheckpointSeal.version);
    file.write_attribute("round", round);
    for (const auto& [name, array] : server.arrays()) {
      const std::string path = kStateGroup + "/" + name;
      std::visit([&](const auto& values) { file.write(path, values); }, array);
    }
    if (directory.width >= 0) {
      file.write(kClientIds, directory.ids);
      const std::vector<int64_t> shape = {directory.rows(), directory.width};
      file.create_dataset(kClientRows, hdf5::kTypeOf<float>, shape).close();
    }
    file.close();
  }
  Descriptor file(temporary.path(), O_RDWR);
  file.reserve(file.size());
  return file.size();
}

void prepare_folder(const std::string& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) throw IoError("cannot make the folder: " + code.message(), folder);
  remove_temporaries(folder);
}

// The flush comes first: what cannot be written to the disk must not get a digest.
void seal(const std::string& path) {
  Descriptor file(path, O_RDWR);
  file.sync();
  file.write_at(0, seal_of(path, kCheckpointSeal));
}

void write_agreed(const std::string& folder, int64_t round, const State& server,
                  const ClientStateStore* clients, Communicator& comm, Readers readers) {
  const Directory directory = gather_directory(clients, comm);
  const std::string path = temporary_path(folder, round);
  std::optional<TemporaryFile> temporary;  // on rank 0
  int64_t file_bytes = 0;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    prepare_folder(folder);
    temporary.emplace(path, readers);
    file_bytes = write_server_part(*temporary, round, server, directory);
  });
  write_rows(path, file_bytes, directory, clients, comm);
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    seal(path);
    temporary->publish(checkpoint_path(folder, round));
  });
}

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

std::optional<std::string> checkpoint_damage(const std::string& file) {
  return seal_damage(file, kCheckpointSeal);
}

std::string checkpoint_path(const std::string& folder, int64_t round) {
  return fmt::format("{}/{}{:06d}{}", folder, kPrefix, round, kSuffix);
}

std::string temporary_path(const std::string& folder, int64_t round) {
  return fmt::format("{}/.{}{:06d}{}", folder, kPrefix, round, kTemporarySuffix);
}

void remove_temporaries(const std::string& folder) {
  for (const auto& name : names_in(folder)) {
    // Older versions wrote through MPI-IO, which makes files for a moment: NAME.locktest.RANK.
    const bool is_temporary =
        name.starts_with("." + kPrefix) && name.find(kTemporarySuffix) != std::string::npos;
    if (is_temporary) remove_file(folder + "/" + name);
  }
}

std::optional<int64_t> round_of_name(const std::string& file_name) {
  if (!file_name.starts_with(kPrefix) || !file_name.ends_with(kSuffix)) return std::nullopt;
  const std::size_t length = file_name.size() - kPrefix.size() - std::string_view(kSuffix).size();
  const std::string digits = file_name.substr(kPrefix.size(), length);
  const bool whole = digits.find_first_not_of("0123456789") == std::string::npos;
  if (!whole || length < 6 || length > 18) return std::nullopt;
  return std::stoll(digits);
}

void prune_checkpoints(const std::string& folder, int64_t keep, int64_t newest_round) {
  if (keep <= 0) return;
  int64_t seen = 0;
  for (const auto& checkpoint : checkpoints_in(folder)) {
    if (checkpoint.round > newest_round) continue;
    if (++seen > keep) remove_file(checkpoint.file);
  }
}

std::optional<FoundCheckpoint> newest_checkpoint(
    const std::string& folder,
    const std::function<void(const std::string&, const std::string&)>& skipped) {
  for (const auto& checkpoint : checkpoints_in(folder)) {
    const auto damage = checkpoint_damage(checkpoint.file);
    if (!damage) return checkpoint;
    skipped(checkpoint.file, *damage);
  }
  return std::nullopt;
}

void write_checkpoint(const std::string& folder, int64_t round, const State& server,
                      const ClientStateStore* clients, Communicator& comm, Readers readers) {
  try {
    write_agreed(folder, round, server, clients, comm, readers);
  } catch (const AgreedError& error) {
    throw IoError(error.what());
  }
}

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

std::vector<float> read_checkpoint_client(const std::string& path, int64_t client) {
  if (const auto damage = checkpoint_damage(path)) refuse(path, *damage);
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  if (!file.contains("/clients")) return {};
  const ClientRows rows = open_rows(file, path);
  const auto found = std::ranges::lower_bound(rows.ids, client);
  if (found == rows.ids.end() || *found != client) return {};
  std::vector<float> row(to_index(rows.width));
  rows.values.read_block({found - rows.ids.begin(), 1, 0, rows.width}, row.data());
  return row;
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
