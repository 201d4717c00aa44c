// The streams of the pretended GPU. They lag as far as they may: what is started on a stream runs
// when somebody waits for it, and no earlier; what another stream has may run before it or behind
// it, but for events. While a stream is recorded its work runs, so that tensors get their shapes,
// and all that it wrote is put back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "model/device/pretended/memory.hpp"
#include "model/device/pretended/pretended_gpu.hpp"

namespace hanse::pretended {

using Task = std::function<void()>;

// So many GPUs pretend. Each thread has one of them as CUDA's current device.
inline constexpr int kOrdinals = 4;
int current_ordinal();
class OrdinalScope {
 public:
  explicit OrdinalScope(int ordinal);
  ~OrdinalScope();
  OrdinalScope(const OrdinalScope&) = delete;
  OrdinalScope& operator=(const OrdinalScope&) = delete;

 private:
  int before_;
};
// For good; returns the one before.
int choose_ordinal(int ordinal);

// What was recorded.
struct Graph {
  int64_t pool = 0;
  std::vector<Task> tasks;
};

struct Recording {
  Graph graph;
  std::map<std::byte*, std::vector<std::byte>> before;  // blocks that it wrote, as they were
  std::vector<std::byte*> own;                          // blocks that were taken for it
  bool is_broken = false;
};

struct Stream;

struct Event {
  Stream* stream = nullptr;
  int64_t task = 0;  // the last one that it stands behind

  bool has_come() const;
};

struct Stream {
  struct Entry {
    Task task;    // null: ...
    Event event;  // ... waits for it
  };

  int64_t id = 0;
  int ordinal = 0;  // of its GPU
  std::deque<Entry> queue;
  int64_t begun = 0, done = 0;           // entries
  bool is_busy = false;                  // with one of them
  std::unique_ptr<Recording> recording;  // null: none is made
};

inline bool Event::has_come() const { return stream == nullptr || stream->done >= task; }

class Device {
 public:
  static Device& get();

  // Everything below is called with it.
  std::recursive_mutex mutex;
  Memory memory;
  Counts counts;

  // The stream of this thread.
  Stream& stream();
  // Returns the one before.
  Stream& choose(Stream& stream);
  Stream& make_stream();
  Stream& default_stream(int ordinal) { return stream_of(ordinal); }
  Stream& stream_of(int64_t id) { return streams_.at(static_cast<std::size_t>(id)); }

  // Runs `task` on the stream some time later. It writes the blocks of `written`; a recording has
  // it run at once. Throws what an earlier task threw.
  void start(const Task& task, const std::vector<const void*>& written);
  // Runs `task` at once, behind all that its stream has.
  void start_at_once(const Task& task, const std::vector<const void*>& written);
  // The host waits for a stream; for this thread's; for all of them. Throws what a task threw, and
  // the error of CUDA where it may not wait.
  void wait(Stream& stream);
  void wait() { wait(stream()); }
  void wait_for_device();
  Event event(Stream& stream) const { return {&stream, stream.begun}; }
  void put_behind(const Event& event, Stream& stream);

  // For tensors of this thread's stream. Throws c10::OutOfMemoryError.
  std::byte* take(std::size_t bytes);
  // The GPU that a block was taken for.
  int ordinal_of(const Memory::Block& block) const { return owners_.at(block.first)->ordinal; }
  void give(std::byte* block) noexcept;

  // Recordings are of this thread's stream. end_recording() throws where something was refused.
  void begin_recording(int64_t pool);
  Graph end_recording();
  void replay(std::shared_ptr<const Graph> graph);
  // Throws when this thread's stream is recorded.
  void refuse_in_recording(const std::string& what);

  int64_t make_pool() { return ++pools_; }
  // Throws where the last holder has released it, as LibTorch does.
  void hold_pool(int64_t pool);
  void release_pool(int64_t pool);
  // The graphs of all pools, and recordings that hold one.
  int64_t pool_holders() const;

 private:
  Device();
  void run_to(Stream& stream, int64_t task);
  void run_next(Stream& stream);
  void run_all();
  Stream* another_stream(const Stream& stream);
  void keep_for_recording(Recording& recording, const std::vector<const void*>& written);
  void throw_what_went_wrong();

  std::map<const std::byte*, Stream*> owners_;  // of the blocks
  std::deque<Stream> streams_;  // the first ones are those of the GPUs at their start
  std::minstd_rand chance_;
  std::exception_ptr wrong_;
  int64_t pools_ = 0;
  std::map<int64_t, int64_t> holders_;  // of pools; 0: there are none any more
};

}  // namespace hanse::pretended
