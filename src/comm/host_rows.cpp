#include "host_rows.hpp"

#include <algorithm>

#include "sum_elements.hpp"

namespace hanse {

namespace {

constexpr int64_t kShortestPiece = 64;  // elements
constexpr int64_t kMostPieces = int64_t{1} << 40;

}  // namespace

HostRows::HostRows(Communicator& host, int64_t bytes)
    : rank_(host.rank()),
      ranks_(host.size()),
      bytes_(bytes),
      rows_(share_rows(host, bytes)),
      queue_(make_shared_queue(host, host.size())) {
  const int64_t stamps = ranks_ + 1 + bytes / kShortestPiece + 1;
  stamps_ = host.allocate_shared(stamps * static_cast<int64_t>(sizeof(Stamp)));
  arrived_ = reinterpret_cast<Stamp*>(stamps_.get());  // zeros: no sum
  released_ = arrived_ + ranks_;
  summed_ = released_ + 1;
}

void HostRows::start_sum(int64_t count, ElementType type, int64_t piece) {
  ++sum_;
  count_ = count;
  type_ = type;
  piece_ = std::max(piece, kShortestPiece);
  pieces_ = (count + piece_ - 1) / piece_;
  result_ = nullptr;
  ready_ = 0;
  copied_ = 0;
  present_ = 0;
  all_taken_ = false;
  queue_->start(pieces_, 1);
  arrived_[rank_].store(sum_, std::memory_order_release);
}

void HostRows::start_exchange(Communicator& host, int64_t count, ElementType type, int64_t piece,
                              double unit, float* result) {
  if (!floats_) {
    floats_ = host.allocate_shared(2 * count * static_cast<int64_t>(sizeof(float)));
    taken_ = reinterpret_cast<float*>(floats_.get());
    given_ = taken_ + count;
  }
  unit_ = unit;
  start_sum(count, type, piece);
  result_ = result;
}

// Then all have left the sum before, too, and found no piece of it any more.
bool HostRows::all_arrived() {
  while (present_ < ranks_ && arrived_[present_].load(std::memory_order_acquire) >= sum_) {
    ++present_;
  }
  return present_ == ranks_;
}

void HostRows::look() {
  while (ready_ < pieces_ && summed_[ready_].load(std::memory_order_acquire) == sum_) ++ready_;
}

bool HostRows::advance() {
  if (!all_arrived()) return false;
  const int64_t before = ready_;
  look();
  if (rank_ == 0 && ready_ > before) return true;
  if (all_taken_) return copy() || ready_ > before;
  const WorkQueue::Piece piece = queue_->next();
  all_taken_ = piece.empty();
  if (!all_taken_) add(piece.begin);
  return true;
}

// In blocks that the first cache holds.
void HostRows::add(int64_t piece) {
  constexpr int64_t kBlock = 1024;
  const int64_t end = piece * piece_ + length(piece), width = element_bytes(type_);
  for (int64_t i = piece * piece_; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    std::byte* sum = rows_.of(0) + i * width;
    for (int rank = 1; rank < ranks_; ++rank) {
      add_and_clear(type_, rows_.of(rank) + i * width, n, sum);
    }
    if (result_ != nullptr) take_and_clear(type_, sum, n, unit_, taken_ + i);
  }
  summed_[piece].store(sum_, std::memory_order_release);
}

void HostRows::release(int64_t pieces) {
  for (; copied_ < pieces; ++copied_) {
    std::copy_n(result_ + copied_ * piece_, length(copied_), given_ + copied_ * piece_);
  }
  released_->store(sum_ * kMostPieces + copied_, std::memory_order_release);
}

// Of one piece.
bool HostRows::copy() {
  if (rank_ == 0 || result_ == nullptr || copied_ == pieces_) return false;
  if (released_->load(std::memory_order_acquire) <= sum_ * kMostPieces + copied_) return false;
  std::copy_n(given_ + copied_ * piece_, length(copied_), result_ + copied_ * piece_);
  ++copied_;
  return true;
}

std::shared_ptr<HostRows> find_rows(std::vector<std::weak_ptr<HostRows>>& all, const void* row,
                                    int64_t bytes, ElementType type) {
  std::erase_if(all, [](const auto& rows) { return rows.expired(); });
  const auto found = std::ranges::find_if(all, [&](const auto& one) {
    const auto rows = one.lock();
    return rows->mine() == row && rows->bytes() == bytes && is_exchanged(type);
  });
  return found == all.end() ? nullptr : found->lock();
}

}  // namespace hanse
