#include "hanse/client/state_store.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/aligned.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"

namespace hanse {

namespace {

constexpr int64_t kSlabBytes = int64_t{4} << 20;

// Bytes from a row to the next. Every row starts on a line: kernels that peel up to an aligned
// address then see the same alignment, and give the same bits, wherever a client's row lies.
int64_t stride_bytes(int64_t width) {
  return whole_lines(width) * static_cast<int64_t>(sizeof(float));
}

int64_t rows_below(int64_t limit_bytes, int64_t width) {
  return width > 0 ? std::max<int64_t>(limit_bytes, 0) / stride_bytes(width) : 0;
}

int64_t whole_pages(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

// Maps zeros: of `file` from `offset` on, or without a file (-1) in anonymous memory.
std::shared_ptr<std::byte> map_zeros(int64_t bytes, int file, int64_t offset) {
  const auto length = static_cast<std::size_t>(bytes);
  const bool in_file = file >= 0;
  const int flags = in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* start = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, file, offset);
  if (start == MAP_FAILED) {
    throw IoError(fmt::format("cannot map {} bytes for client states: {}", bytes, errno_text()));
  }
  // Asks for huge pages: fewer to make, and to look up in passes over long rows.
  if (!in_file) madvise(start, length, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(start), [length](std::byte* p) { munmap(p, length); }};
}

}  // namespace

int64_t width_of(const std::vector<StateBlock>& blocks) {
  int64_t width = 0;
  for (const StateBlock& block : blocks) width += block.width;
  return width;
}

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
  if (marked_ && !before_.contains(client)) {
    auto& kept = before_[client];
    if (found != index_.end()) kept.emplace(found->second, found->second + width_);
  }
  if (found != index_.end()) return {found->second, length};
  float* data = width_ > 0 ? new_row() : nullptr;
  index_.emplace(client, data);
  return {data, length};
}

float* ClientStateStore::new_row() {
  if (!free_.empty()) {
    float* data = free_.back();
    free_.pop_back();
    std::fill_n(data, width_, 0.0F);
    return data;
  }
  if (rows_left_ == 0) add_slab();
  --rows_left_;
  return std::exchange(next_row_, next_row_ + whole_lines(width_));
}

void ClientStateStore::drop(int64_t client) {
  const auto found = index_.find(client);
  if (found->second) free_.push_back(found->second);
  index_.erase(found);
}

void ClientStateStore::mark() {
  marked_ = true;
  before_.clear();
}

void ClientStateStore::take_back() {
  for (const auto& [client, kept] : before_) {
    if (kept) {
      std::ranges::copy(*kept, index_.at(client));
    } else {
      drop(client);
    }
  }
  before_.clear();
}

std::span<const float> ClientStateStore::existing_row(int64_t client) const {
  return {index_.at(client), static_cast<std::size_t>(width_)};
}

void ClientStateStore::add_slab() {
  int64_t rows = std::max<int64_t>(1, kSlabBytes / stride_bytes(width_));
  const int64_t more_in_memory = rows_in_memory_ - static_cast<int64_t>(index_.size());
  if (more_in_memory > 0) rows = std::min(rows, more_in_memory);
  const int64_t bytes = whole_pages(rows * stride_bytes(width_));
  if (more_in_memory > 0) {
    slabs_.push_back(map_zeros(bytes, -1, 0));
  } else {
    if (file_ < 0) file_ = open_unnamed_file(folder_, "a file for client states");
    if (!reserve_blocks(file_, file_bytes_, bytes)) {
      throw IoError(fmt::format("no room for client states: {} bytes needed beyond {}: {}", bytes,
                                file_bytes_, errno_text()),
                    folder_, "raise client.state-memory or make room on the disk");
    }
    slabs_.push_back(map_zeros(bytes, file_, file_bytes_));
    file_bytes_ += bytes;
  }
  rows_left_ = rows;
  next_row_ = reinterpret_cast<float*>(slabs_.back().get());
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
