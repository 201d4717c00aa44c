#include "hanse/model/frozen_store.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/common_memory.hpp"

namespace hanse {

namespace {

constexpr int64_t kPage = 4096;
constexpr uint64_t kBegun = 1;  // a block's state while somebody writes it

int64_t hash_bytes(int64_t blocks) {
  return (blocks * static_cast<int64_t>(sizeof(uint64_t)) + kPage - 1) / kPage * kPage;
}

std::string header_of(const std::string& own_key, const FrozenStore::Shape& shape) {
  std::string text =
      fmt::format("hanse frozen 1 {} {} {}\n", own_key, shape.blocks, shape.block_bytes);
  text.resize(to_index(kPage));
  return text;
}

// An open file.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : number_(open(path.c_str(), flags, 0644)) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  bool has(const std::string& header, int64_t bytes) const {
    struct stat found {};
    std::string own(header.size(), 0);
    return fstat(number_, &found) == 0 && found.st_size == bytes &&
           pread(number_, own.data(), own.size(), 0) == std::ssize(own) && own == header;
  }

 private:
  int number_;
};

// Makes the file under another name first: nobody finds half a header.
void make_file(const std::string& path, const std::string& header, int64_t bytes, bool replaces) {
  const std::string fresh = fmt::format("{}.{}", path, getpid());
  const auto fail = [&](const std::string& what) {
    const std::string why = errno_text();
    unlink(fresh.c_str());
    throw IoError(what + why, path, "make room, or set model.frozen-cache-path");
  };
  const OpenFile file(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC);
  if (!file) fail("cannot create the file: ");
  if (!reserve_blocks(file.number(), 0, bytes)) {
    fail(fmt::format("no room for {} bytes of frozen values: ", bytes));
  }
  if (pwrite(file.number(), header.data(), header.size(), 0) != std::ssize(header)) {
    fail("cannot write the file: ");
  }
  // Another run may have made it in the meantime; then that one is taken.
  const bool is_named = replaces ? rename(fresh.c_str(), path.c_str()) == 0
                                 : link(fresh.c_str(), path.c_str()) == 0 || errno == EEXIST;
  if (!is_named) fail("cannot name the file: ");
  if (!replaces) unlink(fresh.c_str());
}

// Makes the file unless it is there; replaces another one of that name.
void make_sure_of(const std::string& path, const std::string& header, int64_t bytes) {
  const OpenFile file(path, O_RDWR | O_CLOEXEC);
  if (!file && errno != ENOENT) throw IoError("cannot open the file: " + errno_text(), path);
  const bool replaces = file && !file.has(header, bytes);
  if (replaces) warning(path + " has no frozen values of this job: it is made anew");
  if (!file || replaces) make_file(path, header, bytes, replaces);
}

}  // namespace

int64_t FrozenStore::Shape::bytes() const { return hash_bytes(blocks) + blocks * block_bytes; }

FrozenStore::FrozenStore(std::shared_ptr<std::byte> memory, int64_t first, const Shape& shape,
                         std::string path)
    : memory_(std::move(memory)),
      shape_(shape),
      path_(std::move(path)),
      hashes_(reinterpret_cast<uint64_t*>(memory_.get() + first)),
      values_(memory_.get() + first + hash_bytes(shape.blocks)),
      is_seen_(to_index(shape.blocks), 0) {}

FrozenStore FrozenStore::in_memory(Communicator& host, const Shape& shape) {
  return {share_memory(host, shape.bytes()), 0, shape, ""};
}

FrozenStore FrozenStore::in_file(Communicator& host, const std::string& folder,
                                 const std::string& key, const Shape& shape) {
  const std::string path = fmt::format("{}/frozen-{}.cache", folder, key.substr(0, 16));
  const int64_t bytes = kPage + shape.bytes();
  agree_on(host, [&] {
    if (host.rank() == 0) make_sure_of(path, header_of(key, shape), bytes);
  });
  std::shared_ptr<std::byte> memory;
  agree_on(host, [&] { memory = map_file(path, bytes, Access::kWrite); });
  FrozenStore store(std::move(memory), kPage, shape, path);
  if (host.rank() == 0) store.free_begun();
  host.barrier();
  return store;
}

void FrozenStore::free_begun() {
  for (int64_t block = 0; block < shape_.blocks; ++block) {
    uint64_t begun = kBegun;
    state_of(block).compare_exchange_strong(begun, 0);
  }
}

std::atomic_ref<uint64_t> FrozenStore::state_of(int64_t block) const {
  return std::atomic_ref(hashes_[block]);
}

std::span<std::byte> FrozenStore::values_of(int64_t block) const {
  return {values_ + block * shape_.block_bytes, to_index(shape_.block_bytes)};
}

uint64_t FrozenStore::hash(int64_t block) const {
  return std::max<uint64_t>(hash_of(values_of(block), static_cast<uint64_t>(block)), kBegun + 1);
}

const float* FrozenStore::find(int64_t block) {
  char& is_seen = is_seen_[to_index(block)];
  if (is_seen == 0) {
    const uint64_t stated = state_of(block).load(std::memory_order_acquire);
    if (stated <= kBegun) return nullptr;
    if (stated != hash(block)) {
      if (!path_.empty() && !has_warned_) {
        warning(fmt::format("block {} of {} is damaged, and is computed again", block, path_));
        has_warned_ = true;
      }
      return nullptr;
    }
    is_seen = 1;
  }
  return reinterpret_cast<const float*>(values_of(block).data());
}

const float* FrozenStore::put(int64_t block, const float* values) {
  uint64_t stated = state_of(block).load();
  if (stated == kBegun || !state_of(block).compare_exchange_strong(stated, kBegun)) return values;
  const std::span<std::byte> to = values_of(block);
  std::memcpy(to.data(), values, to.size());
  state_of(block).store(hash(block), std::memory_order_release);
  is_seen_[to_index(block)] = 1;
  return reinterpret_cast<const float*>(to.data());
}

}  // namespace hanse
