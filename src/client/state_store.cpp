#include "hanse/client/state_store.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"

namespace hanse {

namespace {

constexpr int64_t kSlabBytes = int64_t{4} << 20;

// Every row starts at a multiple of 64 bytes: kernels that peel up to an aligned address then see
// the same alignment, and give the same bits, wherever a client's row lies.
constexpr int64_t kRowAlignment = 64;

int64_t row_stride_bytes(int64_t width) {
  const int64_t bytes = width * static_cast<int64_t>(sizeof(float));
  return (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

int64_t rows_below(int64_t limit_bytes, int64_t width) {
  return width > 0 ? std::max<int64_t>(limit_bytes, 0) / row_stride_bytes(width) : 0;
}

int64_t whole_pages(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

}  // namespace

int64_t width_of(const std::vector<StateBlock>& blocks) {
  int64_t width = 0;
  for (const StateBlock& block : blocks) width += block.width;
  return width;
}

struct ClientStateStore::Slab {
  Slab(int64_t row_capacity, int64_t stride_bytes, int64_t mapped_bytes, int file, int64_t offset)
      : capacity(row_capacity), stride(stride_bytes), bytes(mapped_bytes) {
    const bool in_file = file >= 0;
    const int flags = in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* address =
        mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, flags, file, offset);
    if (address == MAP_FAILED) {
      throw IoError(fmt::format("cannot map {} bytes for client states: {}", bytes, errno_text()));
    }
    // A request: fewer pages to make, and to look up in passes over long rows.
    if (!in_file) madvise(address, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    data = static_cast<std::byte*>(address);
  }
  ~Slab() { munmap(data, static_cast<std::size_t>(bytes)); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  bool full() const { return used == capacity; }
  float* next_row() { return reinterpret_cast<float*>(data + used++ * stride); }

  int64_t capacity;  // rows
  int64_t stride;    // bytes from a row to the next
  int64_t bytes;
  int64_t used = 0;  // rows
  std::byte* data = nullptr;
};

ClientStateStore::ClientStateStore(int64_t width, int64_t memory_limit_bytes, std::string folder)
    : width_(width),
      rows_in_memory_(rows_below(memory_limit_bytes, width)),
      folder_(std::move(folder)) {}

ClientStateStore::~ClientStateStore() {
  if (file_ >= 0) close(file_);
}

std::span<float> ClientStateStore::row(int64_t client) {
  const auto length = static_cast<std::size_t>(width_);
  const auto found = index_.find(client);
  if (found != index_.end()) return {found->second, length};
  float* data = width_ > 0 ? new_row() : nullptr;
  index_.emplace(client, data);
  return {data, length};
}

float* ClientStateStore::new_row() {
  if (free_.empty()) return slab_with_room().next_row();
  float* data = free_.back();
  free_.pop_back();
  std::fill_n(data, width_, 0.0F);
  return data;
}

void ClientStateStore::drop(int64_t client) {
  const auto found = index_.find(client);
  if (found->second) free_.push_back(found->second);
  index_.erase(found);
}

std::span<const float> ClientStateStore::existing_row(int64_t client) const {
  return {index_.at(client), static_cast<std::size_t>(width_)};
}

ClientStateStore::Slab& ClientStateStore::slab_with_room() {
  if (!slabs_.empty() && !slabs_.back()->full()) return *slabs_.back();
  const int64_t stride = row_stride_bytes(width_);
  int64_t rows = std::max<int64_t>(1, kSlabBytes / stride);
  const auto rows_so_far = static_cast<int64_t>(index_.size());
  if (rows_so_far < rows_in_memory_) {
    rows = std::min(rows, rows_in_memory_ - rows_so_far);
    slabs_.push_back(std::make_unique<Slab>(rows, stride, whole_pages(rows * stride), -1, 0));
    return *slabs_.back();
  }
  const int64_t bytes = whole_pages(rows * stride);
  grow_file(bytes);
  slabs_.push_back(std::make_unique<Slab>(rows, stride, bytes, file_, file_bytes_));
  file_bytes_ += bytes;
  return *slabs_.back();
}

void ClientStateStore::grow_file(int64_t bytes) {
  if (file_ < 0) file_ = open_unnamed_file(folder_, "a file for client states");
  if (reserve_blocks(file_, file_bytes_, bytes)) return;
  throw IoError(fmt::format("no room for client states: {} bytes needed beyond {}: {}", bytes,
                            file_bytes_, errno_text()),
                folder_, "raise client.state-memory or make room on the disk");
}

std::vector<int64_t> ClientStateStore::clients() const {
  std::vector<int64_t> result;
  result.reserve(index_.size());
  for (const auto& [client, row] : index_) result.push_back(client);
  std::sort(result.begin(), result.end());
  return result;
}

void require_state_room(int64_t width, int64_t clients, int64_t ranks, int64_t memory_limit_bytes,
                        const std::string& folder) {
  // In floating point: 10^8 clients x 10^7 floats are beyond 64 bits of bytes soon.
  const double needed = 4.0 * static_cast<double>(width) * static_cast<double>(clients);
  const double in_memory = static_cast<double>(ranks) * static_cast<double>(memory_limit_bytes);
  if (needed <= in_memory) return;
  auto place = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(place)) place = place.parent_path();
  const auto free = static_cast<double>(std::filesystem::space(place).available);
  if (needed - in_memory <= free) return;
  throw InvalidArgument(
      fmt::format(
          "the states of {} clients need {:.1f} GB; client.state-memory holds {:.1f} GB and "
          "the disk {:.1f} GB",
          clients, needed / 1e9, in_memory / 1e9, free / 1e9),
      place.string(), "use fewer clients, a smaller model, or a larger disk for run.out");
}

}  // namespace hanse
