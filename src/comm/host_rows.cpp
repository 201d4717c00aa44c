#include "host_rows.hpp"

#include <algorithm>

#include "hanse/comm/sum_elements.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostPieces = int64_t{1} << 40;

}  // namespace

HostRows::HostRows(Communicator& host, ElementType type, int64_t count)
    : rank_(host.rank()),
      ranks_(host.size()),
      type_(type),
      count_(count),
      piece_(Communicator::kPieceBytes / element_bytes(type)),
      pieces_((count + piece_ - 1) / piece_),
      rows_(share_rows(host, count * element_bytes(type))),
      floats_(host.allocate_shared(2 * count * static_cast<int64_t>(sizeof(float)))),
      taken_(reinterpret_cast<float*>(floats_.get())),
      given_(taken_ + count),
      queue_(make_shared_queue(host, host.size())) {
  const int64_t stamps = ranks_ + 1 + pieces_;
  stamps_ = host.allocate_shared(stamps * static_cast<int64_t>(sizeof(Stamp)));
  arrived_ = reinterpret_cast<Stamp*>(stamps_.get());  // zeros: no sum
  released_ = arrived_ + ranks_;
  summed_ = released_ + 1;
}

void HostRows::start_sum() {
  now_ = {.number = now_.number + 1};
  queue_->start(pieces_, 1);
  arrived_[rank_].store(now_.number, std::memory_order_release);
}

void HostRows::start_exchange(double unit, float* result) {
  start_sum();
  now_.unit = unit;
  now_.result = result;
}

// Then all have left the sum before, too, and found no piece of it any more.
bool HostRows::all_arrived() {
  while (now_.present < ranks_ &&
         arrived_[now_.present].load(std::memory_order_acquire) >= now_.number) {
    ++now_.present;
  }
  return now_.present == ranks_;
}

void HostRows::look() {
  while (now_.ready < pieces_ && summed_[now_.ready].load(std::memory_order_acquire) == now_.number)
    ++now_.ready;
}

bool HostRows::advance() {
  if (!all_arrived()) return false;
  const int64_t before = now_.ready;
  look();
  if (rank_ == 0 && now_.ready > before) return true;
  if (now_.all_taken) return copy() || now_.ready > before;
  const WorkQueue::Piece piece = queue_->next();
  now_.all_taken = piece.empty();
  if (!now_.all_taken) add(piece.begin);
  return true;
}

// In blocks that the first cache holds. Of an exchange the rows stay: what is written once more has
// to go to memory once more.
void HostRows::add(int64_t piece) {
  constexpr int64_t kBlock = 1024;
  alignas(64) std::byte block[kBlock * sizeof(int64_t)];
  const int64_t end = piece * piece_ + length(piece), width = element_bytes(type_);
  for (int64_t i = piece * piece_; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    std::byte* sum = rows_.of(0) + i * width;
    if (now_.result != nullptr) {
      std::copy_n(sum, n * width, block);
      sum = block;
    }
    for (int rank = 1; rank < ranks_; ++rank) {
      add_elements(type_, rows_.of(rank) + i * width, n, sum);
    }
    if (now_.result != nullptr) take_elements(type_, sum, n, now_.unit, taken_ + i);
  }
  summed_[piece].store(now_.number, std::memory_order_release);
}

void HostRows::release(int64_t pieces) {
  for (; now_.copied < pieces; ++now_.copied) {
    std::copy_n(now_.result + now_.copied * piece_, length(now_.copied),
                given_ + now_.copied * piece_);
  }
  released_->store(now_.number * kMostPieces + now_.copied, std::memory_order_release);
}

// Of one piece.
bool HostRows::copy() {
  if (rank_ == 0 || now_.result == nullptr || now_.copied == pieces_) return false;
  if (released_->load(std::memory_order_acquire) <= now_.number * kMostPieces + now_.copied)
    return false;
  std::copy_n(given_ + now_.copied * piece_, length(now_.copied),
              now_.result + now_.copied * piece_);
  ++now_.copied;
  return true;
}

std::shared_ptr<HostRows> find_rows(std::vector<std::weak_ptr<HostRows>>& all, const void* row,
                                    ElementType type, int64_t count) {
  std::erase_if(all, [](const auto& rows) { return rows.expired(); });
  const auto found = std::ranges::find_if(all, [&](const auto& one) {
    const auto rows = one.lock();
    return rows->mine() == row && rows->type() == type && rows->count() == count;
  });
  return found == all.end() ? nullptr : found->lock();
}

}  // namespace hanse
