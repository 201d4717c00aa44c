#include "support/thread_communicator.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include "hanse/base/error.hpp"
#include "hanse/base/scope.hpp"

namespace hanse {

namespace {

// What the ranks share: a barrier that can break, and the pointers each rank shows to the others.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks), shown_(static_cast<std::size_t>(ranks)) {}

  int ranks() const { return ranks_; }

  void wait(int rank) {
    std::unique_lock lock(mutex_);
    if (broken_) throw CommError("another rank has failed", rank, 0);
    const int64_t generation = generation_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++generation_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return generation_ != generation || broken_; });
    if (generation_ == generation) throw CommError("another rank has failed", rank, 0);
  }

  // Breaks this meeting and those split from it.
  void give_up() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
    for (const auto& part : parts_) {
      if (const auto alive = part.lock()) alive->give_up();
    }
  }

  std::shared_ptr<Meeting> split(int ranks) {
    const std::lock_guard lock(mutex_);
    auto part = std::make_shared<Meeting>(ranks);
    part->broken_ = broken_;
    parts_.push_back(part);
    return part;
  }

  void post(int from, int to, std::span<const std::byte> data) {
    const std::lock_guard lock(mutex_);
    mail_.push_back({from, to, {data.begin(), data.end()}});
    changed_.notify_all();
  }

  // The sender of the oldest message, or of the oldest of `from`.
  int collect(int from, int to, std::span<std::byte> data) {
    std::unique_lock lock(mutex_);
    auto letter = mail_.end();
    changed_.wait(lock, [&] {
      letter = std::find_if(mail_.begin(), mail_.end(), [&](const Letter& one) {
        return one.to == to && (from == Communicator::kAnyRank || one.from == from);
      });
      return letter != mail_.end() || broken_;
    });
    if (letter == mail_.end()) throw CommError("another rank has failed", to, 0);
    std::copy(letter->data.begin(), letter->data.end(), data.begin());
    const int sender = letter->from;
    mail_.erase(letter);
    return sender;
  }

  struct View {
    const void* data = nullptr;
    int64_t bytes = 0;
  };
  View& shown(int rank) { return shown_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<std::byte> shared;  // of the allocation in progress

 private:
  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int64_t generation_ = 0;
  bool broken_ = false;
  struct Letter {
    int from;
    int to;
    std::vector<std::byte> data;
  };

  std::vector<View> shown_;
  std::vector<Letter> mail_;  // by age
  std::vector<std::weak_ptr<Meeting>> parts_;
};

template <class T>
void combine(T* into, const T* other, int64_t count, ReduceOp op) {
  for (int64_t i = 0; i < count; ++i) {
    switch (op) {
      case ReduceOp::kSum: into[i] = static_cast<T>(into[i] + other[i]); break;
      case ReduceOp::kMin: into[i] = std::min(into[i], other[i]); break;
      case ReduceOp::kMax: into[i] = std::max(into[i], other[i]); break;
    }
  }
}

void combine(void* into, const void* other, int64_t count, ElementType type, ReduceOp op) {
  switch (type) {
    case ElementType::kInt64:
      return combine(static_cast<int64_t*>(into), static_cast<const int64_t*>(other), count, op);
    case ElementType::kDouble:
      return combine(static_cast<double*>(into), static_cast<const double*>(other), count, op);
    case ElementType::kFloat:
      return combine(static_cast<float*>(into), static_cast<const float*>(other), count, op);
    case ElementType::kByte:
      return combine(static_cast<uint8_t*>(into), static_cast<const uint8_t*>(other), count, op);
  }
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->ranks(); }
  void barrier() override {
    const Scope timer(seconds_);
    meeting_->wait(rank_);
  }

  // All ranks are on one host. Another meeting keeps the communicators' steps apart.
  std::unique_ptr<Communicator> split(int64_t colour) override {
    show(&colour, sizeof(colour));
    std::vector<int> members;
    for (int rank = 0; rank < size(); ++rank) {
      const auto its = *static_cast<const int64_t*>(meeting_->shown(rank).data);
      if (its == colour) members.push_back(rank);
    }
    meeting_->wait(rank_);
    const int first = members.front();
    std::shared_ptr<Meeting> part;
    if (rank_ == first) part = meeting_->split(static_cast<int>(members.size()));
    show(&part, 0);
    if (rank_ != first) {
      part = *static_cast<const std::shared_ptr<Meeting>*>(meeting_->shown(first).data);
    }
    meeting_->wait(rank_);
    const auto own = std::ranges::find(members, rank_) - members.begin();
    return std::make_unique<ThreadCommunicator>(part, static_cast<int>(own));
  }

  std::shared_ptr<std::byte> allocate_shared(int64_t bytes) override {
    if (rank_ == 0) {
      const auto aligned = (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
      auto* memory =
          static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(aligned, 64)));
      if (memory) std::memset(memory, 0, aligned);
      meeting_->shared = std::shared_ptr<std::byte>(memory, [](std::byte* p) { std::free(p); });
    }
    meeting_->wait(rank_);
    auto result = meeting_->shared;
    meeting_->wait(rank_);
    if (rank_ == 0) meeting_->shared.reset();
    if (!result) throw IoError("no room for shared memory", std::to_string(bytes) + " bytes");
    return result;
  }

 private:
  // Shows this rank's buffer to the others until the next wait.
  void show(const void* data, int64_t bytes) {
    meeting_->shown(rank_) = {data, bytes};
    meeting_->wait(rank_);
  }

  void bcast_impl(Buffer buffer, int root) override {
    const Scope timer(seconds_);
    show(buffer.data, buffer.bytes());
    if (rank_ != root && buffer.bytes() > 0) {
      std::memcpy(buffer.data, meeting_->shown(root).data,
                  static_cast<std::size_t>(buffer.bytes()));
    }
    if (rank_ == root) bytes_moved_ += buffer.bytes() * (size() - 1);
    meeting_->wait(rank_);
  }

  void reduce_impl(Buffer buffer, ReduceOp op, int root) override {
    const Scope timer(seconds_);
    show(buffer.data, buffer.bytes());
    if (rank_ == root) {
      for (int other = 0; other < size(); ++other) {
        if (other == root) continue;
        combine(buffer.data, meeting_->shown(other).data, buffer.count, buffer.type, op);
      }
      bytes_moved_ += buffer.bytes() * (size() - 1);
    }
    meeting_->wait(rank_);
  }

  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                      std::vector<int64_t>& bytes_of) override {
    const Scope timer(seconds_);
    show(data.data(), static_cast<int64_t>(data.size()));
    std::vector<std::byte> all;
    bytes_of.clear();
    if (rank_ == root) {
      for (int other = 0; other < size(); ++other) {
        const auto& view = meeting_->shown(other);
        const auto* bytes = static_cast<const std::byte*>(view.data);
        all.insert(all.end(), bytes, bytes + view.bytes);
        bytes_of.push_back(view.bytes);
        if (other != root) bytes_moved_ += view.bytes;
      }
    }
    meeting_->wait(rank_);
    return all;
  }

  void allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) override {
    const Scope timer(seconds_);
    show(buffer.data, buffer.bytes());
    const int64_t width = element_bytes(buffer.type);
    int64_t begin = 0;
    for (int other = 0; other < size(); ++other) {
      const int64_t bytes = counts[static_cast<std::size_t>(other)] * width;
      if (other != rank_ && bytes > 0) {
        std::memcpy(static_cast<std::byte*>(buffer.data) + begin,
                    static_cast<const std::byte*>(meeting_->shown(other).data) + begin,
                    static_cast<std::size_t>(bytes));
      }
      if (other == rank_) bytes_moved_ += bytes * (size() - 1);
      begin += bytes;
    }
    meeting_->wait(rank_);
  }

  // Shows the counts with the elements: a receiver's part begins behind those for lower ranks.
  void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                      std::span<std::byte> in, std::span<const int64_t> receives,
                      std::size_t width) override {
    const Scope timer(seconds_);
    const std::pair shown{out, sends};
    show(&shown, 0);
    std::byte* next = in.data();
    for (int from = 0; from < size(); ++from) {
      const auto& [theirs, counts] =
          *static_cast<const std::pair<std::span<const std::byte>, std::span<const int64_t>>*>(
              meeting_->shown(from).data);
      const auto begin = std::accumulate(counts.begin(), counts.begin() + rank_, int64_t{0});
      const auto bytes = static_cast<std::size_t>(receives[static_cast<std::size_t>(from)]) * width;
      if (bytes > 0) {
        std::memcpy(next, theirs.data() + static_cast<std::size_t>(begin) * width, bytes);
      }
      next += bytes;
    }
    for (int to = 0; to < size(); ++to) {
      if (to != rank_) {
        bytes_moved_ += sends[static_cast<std::size_t>(to)] * static_cast<int64_t>(width);
      }
    }
    meeting_->wait(rank_);
  }

  void send_impl(std::span<const std::byte> data, int to) override {
    const Scope timer(seconds_);
    meeting_->post(rank_, to, data);
    bytes_moved_ += static_cast<int64_t>(data.size());
  }

  int recv_impl(std::span<std::byte> data, int from) override {
    const Scope timer(seconds_);
    return meeting_->collect(from, rank_, data);
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(Communicator&)>& body) {
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::mutex first_mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ThreadCommunicator comm(meeting, rank);
        body(comm);
      } catch (...) {
        {
          const std::lock_guard lock(first_mutex);
          if (!first) first = std::current_exception();
        }
        meeting->give_up();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hanse
