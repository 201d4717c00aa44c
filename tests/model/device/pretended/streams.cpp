#include "model/device/pretended/streams.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace hanse::pretended {

namespace {

constexpr std::size_t kLongest = 4096;  // a stream's queue
constexpr int kUntouched = 0xff;

// The stream of a thread. LibTorch hands it to the threads that find its gradients, as it does with
// all information of this kind.
struct Chosen final : c10::DebugInfoBase {
  explicit Chosen(Stream& of_thread) : stream(of_thread) {}
  Stream& stream;
};
constexpr auto kChosen = c10::DebugInfoKind::TEST_INFO;

}  // namespace

namespace {
thread_local int ordinal = 0;
}  // namespace

int current_ordinal() { return ordinal; }
int choose_ordinal(int chosen) { return std::exchange(ordinal, chosen); }
OrdinalScope::OrdinalScope(int chosen) : before_(choose_ordinal(chosen)) {}
OrdinalScope::~OrdinalScope() { choose_ordinal(before_); }

Device& Device::get() {
  static auto* device = new Device;  // outlives whatever frees tensors at the end
  return *device;
}

Device::Device() {
  for (int gpu = 0; gpu < kOrdinals; ++gpu) {
    const OrdinalScope scope(gpu);
    make_stream();
  }
  if (const char* bytes = std::getenv("HANSE_FAKE_GPU_BYTES")) memory.set_limit(std::stoull(bytes));
}

Stream& Device::make_stream() {
  Stream& stream = streams_.emplace_back();
  stream.id = static_cast<int64_t>(streams_.size()) - 1;
  stream.ordinal = current_ordinal();
  return stream;
}

Stream& Device::stream() {
  auto* const chosen = static_cast<Chosen*>(c10::ThreadLocalDebugInfo::get(kChosen));
  const bool is_here = chosen != nullptr && chosen->stream.ordinal == current_ordinal();
  return is_here ? chosen->stream : default_stream(current_ordinal());
}

Stream& Device::choose(Stream& to) {
  Stream& before = stream();
  if (c10::ThreadLocalDebugInfo::get(kChosen) != nullptr) c10::ThreadLocalDebugInfo::_pop(kChosen);
  if (to.id >= kOrdinals) c10::ThreadLocalDebugInfo::_push(kChosen, std::make_shared<Chosen>(to));
  return before;
}

void Device::throw_what_went_wrong() {
  if (wrong_) std::rethrow_exception(std::exchange(wrong_, nullptr));
}

void Device::keep_for_recording(Recording& recording, const std::vector<const void*>& written) {
  for (const void* place : written) {
    const Memory::Block* block = memory.block_of(place);
    if (block == nullptr || block->pool == recording.graph.pool) continue;
    const std::byte* const first = memory.host(block->first);
    recording.before.try_emplace(block->first, first, first + block->bytes);
  }
}

void Device::start(const Task& task, const std::vector<const void*>& written) {
  throw_what_went_wrong();
  Stream& to = stream();
  if (to.recording) {
    keep_for_recording(*to.recording, written);
    to.recording->graph.tasks.push_back(task);
    return task();
  }
  to.queue.push_back({task, {}});
  ++to.begun;
  if (to.queue.size() > kLongest) run_to(to, to.begun);
}

void Device::start_at_once(const Task& task, const std::vector<const void*>& written) {
  Stream& to = stream();
  if (to.recording) {
    keep_for_recording(*to.recording, written);
  } else {
    run_to(to, to.begun);
  }
  throw_what_went_wrong();
  task();
}

Stream* Device::another_stream(const Stream& stream) {
  std::vector<Stream*> others;
  for (Stream& other : streams_) {
    if (&other == &stream || other.is_busy || other.queue.empty()) continue;
    if (other.queue.front().event.has_come()) others.push_back(&other);
  }
  return others.empty() ? nullptr : others[chance_() % others.size()];
}

void Device::run_to(Stream& stream, int64_t task) {
  while (stream.done < task) {
    Stream* const other = chance_() % 4 == 0 ? another_stream(stream) : nullptr;
    run_next(other != nullptr ? *other : stream);
  }
}

// A task that ends may give memory back, which is one more.
void Device::run_all() {
  const auto has_tasks = [](const Stream& stream) { return !stream.queue.empty(); };
  for (auto it = streams_.begin(); it != streams_.end();
       it = std::ranges::find_if(streams_, has_tasks)) {
    run_to(*it, it->begun);
  }
}

void Device::run_next(Stream& stream) {
  const Stream::Entry entry = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.is_busy = true;
  if (!entry.event.has_come()) run_to(*entry.event.stream, entry.event.task);
  try {
    if (entry.task) entry.task();
  } catch (...) {
    if (!wrong_) wrong_ = std::current_exception();
  }
  stream.is_busy = false;
  ++stream.done;
}

void Device::put_behind(const Event& event, Stream& stream) {
  if (event.stream == nullptr || event.stream == &stream) return;
  stream.queue.push_back({nullptr, event});
  ++stream.begun;
}

void Device::wait(Stream& of) {
  refuse_in_recording("waiting for the device");
  ++counts.waits;
  run_to(of, of.begun);
  throw_what_went_wrong();
}

void Device::wait_for_device() {
  for (const Stream& stream : streams_) {
    if (!stream.recording) continue;
    ++counts.refused;
    TORCH_CHECK(false, "CUDA error 900: the host waits for the device while a thread records");
  }
  ++counts.waits;
  run_all();
  throw_what_went_wrong();
}

std::byte* Device::take(std::size_t bytes) {
  Recording* const recording = stream().recording.get();
  const int64_t pool = recording != nullptr ? recording->graph.pool : 0;
  std::byte* block = memory.take(bytes, pool);
  if (block == nullptr && recording == nullptr) {  // what is given back later is there now
    run_all();
    block = memory.take(bytes, pool);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "CUDA out of memory. Tried to allocate ",
                   bytes, " bytes. The pretended GPU has ", memory.limit(), " bytes of which ",
                   memory.used(), " are in use");
  owners_[block] = &stream();
  if (recording != nullptr) {
    recording->own.push_back(block);
    const std::size_t room = memory.block_of(block)->room;  // where a larger one may have been
    recording->graph.tasks.push_back(
        [this, block, room] { std::memset(memory.host(block), kUntouched, room); });
  }
  return block;
}

void Device::give(std::byte* block) noexcept {
  const auto back = [this, block] {
    try {
      memory.give(block);
    } catch (...) {
      if (!wrong_) wrong_ = std::current_exception();
    }
  };
  Stream& of = *owners_.at(block);
  if (of.recording || of.queue.empty()) return back();
  of.queue.push_back({back, {}});
  ++of.begun;
}

void Device::begin_recording(int64_t pool) {
  TORCH_CHECK(!stream().recording && stream().id >= kOrdinals,
              "CUDA error 900: no stream to record");
  run_all();
  throw_what_went_wrong();
  stream().recording = std::make_unique<Recording>(Recording{.graph = {.pool = pool}});
}

Graph Device::end_recording() {
  const auto recording = std::exchange(stream().recording, nullptr);
  TORCH_CHECK(recording, "CUDA error 401: no recording is under way");
  for (const auto& [first, bytes] : recording->before) {
    const Memory::Block* block = memory.block_of(first);
    if (block != nullptr) std::ranges::copy(bytes, memory.host(first));
  }
  for (std::byte* first : recording->own) {
    if (const auto* block = memory.block_of(first)) {
      std::memset(memory.host(first), kUntouched, block->room);
    }
  }
  TORCH_CHECK(!recording->is_broken, "CUDA error 901: the recording ended with what was refused");
  ++counts.graphs;
  return std::move(recording->graph);
}

void Device::replay(std::shared_ptr<const Graph> graph) {
  refuse_in_recording("a graph");
  ++counts.graph_launches;
  start(
      [graph = std::move(graph)] {
        for (const Task& task : graph->tasks) task();
      },
      {});
}

void Device::refuse_in_recording(const std::string& what) {
  Recording* const recording = stream().recording.get();
  if (recording == nullptr) return;
  recording->is_broken = true;
  ++counts.refused;
  TORCH_CHECK(false, "CUDA error 900: a recording cannot hold ", what);
}

void Device::hold_pool(int64_t pool) {
  const auto [holders, is_new] = holders_.try_emplace(pool, 0);
  if (!is_new && holders->second == 0) {
    ++counts.refused;
    TORCH_CHECK(false, "a recording for a pool of memory that LibTorch has given back");
  }
  ++holders->second;
}

void Device::release_pool(int64_t pool) {
  const auto holders = holders_.find(pool);
  TORCH_CHECK(holders != holders_.end() && holders->second > 0, "no graph has this pool of memory");
  if (--holders->second > 0) return;
  run_all();
  memory.release(pool);
}

int64_t Device::pool_holders() const {
  int64_t all = 0;
  for (const auto& [pool, holders] : holders_) all += holders;
  return all;
}

}  // namespace hanse::pretended
