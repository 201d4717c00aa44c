#include "host_rows.hpp"

#include "hanse/comm/element.hpp"

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
      queue_(make_shared_queue(host, host.size())) {
  const int64_t stamps = 2 * ranks_ + 1 + pieces_;
  stamps_ = host.allocate_shared(stamps * static_cast<int64_t>(sizeof(Stamp)));
  arrived_ = reinterpret_cast<Stamp*>(stamps_.get());  // zeros: no sum
  left_ = arrived_ + ranks_;
  released_ = left_ + ranks_;
  summed_ = released_ + 1;
}

void HostRows::start_sum() {
  now_ = {.number = now_.number + 1};
  queue_->start(pieces_, 1);
  arrived_[rank_].store(now_.number, std::memory_order_release);
}

void HostRows::start_exchange(double unit, const HostRows& result) {
  start_sum();
  now_.unit = unit;
  now_.source = reinterpret_cast<const float*>(result.rows_.of(0));
  now_.result = reinterpret_cast<float*>(result.mine());
}

bool HostRows::have_all(const Stamp* stamps, int& ranks) const {
  while (ranks < ranks_ && stamps[ranks].load(std::memory_order_acquire) >= now_.number) ++ranks;
  return ranks == ranks_;
}

void HostRows::look() {
  while (now_.ready < pieces_ && summed_[now_.ready].load(std::memory_order_acquire) == now_.number)
    ++now_.ready;
}

// When all have arrived, they have left the sum before, too, and found no piece of it any more.
bool HostRows::advance() {
  if (!have_all(arrived_, now_.arrived)) return false;
  const int64_t before = now_.ready;
  look();
  const bool came = now_.ready > before;
  if (copy() || (rank_ == 0 && came)) return true;
  if (now_.all_taken) return came;
  const WorkQueue::Piece piece = queue_->next();
  now_.all_taken = piece.empty();
  if (!now_.all_taken) add(piece.begin);
  return true;
}

// Adds in blocks that the first cache holds. An exchange sums a block beside the row, so that only
// floats go back to memory: to the piece's own place, no further on than the integers were.
void HostRows::add(int64_t piece) {
  constexpr int64_t kBlock = 1024;
  alignas(64) std::byte block[kBlock * sizeof(int64_t)];
  const int64_t width = element_bytes(type_);
  for (int64_t i = 0; i < length(piece); i += kBlock) {
    const int64_t n = std::min(kBlock, length(piece) - i);
    std::byte* sum = place(0, piece) + i * width;
    if (now_.source != nullptr) {
      std::copy_n(sum, n * width, block);
      sum = block;
    }
    for (int rank = 1; rank < ranks_; ++rank) {
      add_elements(type_, place(rank, piece) + i * width, n, sum);
    }
    if (now_.source != nullptr) take_elements(type_, sum, n, now_.unit, taken(piece) + i);
  }
  summed_[piece].store(now_.number, std::memory_order_release);
}

void HostRows::release(int64_t pieces) {
  now_.copied = pieces;
  released_->store(now_.number * kMostPieces + now_.copied, std::memory_order_release);
}

// Copies one piece.
bool HostRows::copy() {
  if (rank_ == 0 || now_.source == nullptr || now_.copied == pieces_) return false;
  if (released_->load(std::memory_order_acquire) <= now_.number * kMostPieces + now_.copied)
    return false;
  const int64_t begin = now_.copied * piece_;
  std::copy_n(now_.source + begin, length(now_.copied), now_.result + begin);
  if (++now_.copied == pieces_) left_[rank_].store(now_.number, std::memory_order_release);
  return true;
}

bool HostRows::done() {
  if (now_.ready < pieces_ || !now_.all_taken) return false;
  if (now_.source == nullptr) return true;
  return now_.copied == pieces_ && (rank_ > 0 || have_all(left_, now_.left));
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
