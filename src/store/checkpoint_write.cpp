// Writing a checkpoint. Rank 0 lays the file out and writes the server's state; then every rank
// writes its clients' rows into place; then rank 0 seals and publishes the file. Between the steps
// the ranks agree that the step before succeeded everywhere.
#include <filesystem>
#include <optional>
#include <system_error>
#include <variant>
#include <vector>

#include <fcntl.h>

#include "checkpoint_format.hpp"
#include "checkpoint_rows.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/checkpoint.hpp"

namespace hanse {

namespace {

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
  std::filesystem::create_directories(folder, code);
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
                  const ClientStateStore* clients, Communicator& comm) {
  const Directory directory = gather_directory(clients, comm);
  const std::string path = temporary_path(folder, round);
  std::optional<TemporaryFile> temporary;  // on rank 0
  int64_t file_bytes = 0;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    prepare_folder(folder);
    temporary.emplace(path);
    file_bytes = write_server_part(*temporary, round, server, directory);
  });
  write_rows(path, file_bytes, directory, clients, comm);
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    seal(path);
    temporary->publish(checkpoint_path(folder, round));
  });
}

}  // namespace

void write_checkpoint(const std::string& folder, int64_t round, const State& server,
                      const ClientStateStore* clients, Communicator& comm) {
  try {
    write_agreed(folder, round, server, clients, comm);
  } catch (const AgreedError& error) {
    throw IoError(error.what());
  }
}

}  // namespace hanse
