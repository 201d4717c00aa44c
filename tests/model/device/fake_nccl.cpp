#include "model/device/fake_nccl.hpp"

#include <barrier>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

namespace hanse::fake {

// What the ranks of one communicator share. Every rank of it calls each collective.
struct World {
  explicit World(int ranks) : there(ranks), shown(static_cast<std::size_t>(ranks)) {}

  std::barrier<> there;
  std::vector<const void*> shown;                                         // what each rank gives
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> messages;  // by sender and receiver
  std::mutex mutex;
  std::condition_variable sent;
};

}  // namespace hanse::fake

namespace {

using hanse::fake::World;

std::mutex worlds_mutex;
std::map<std::string, std::shared_ptr<World>> worlds;

thread_local std::string device;
thread_local hanse::fake::Faults thread_faults;
thread_local std::vector<std::string> thread_calls;

void* place_of(const void* given) { return hanse::fake::place_of(given); }

std::size_t bytes_of(ncclDataType_t type) { return type == ncclInt64 ? 8 : 4; }

void note(const std::string& call) {
  thread_calls.push_back(device.empty() ? call : call + " on " + device);
}

std::string values(std::size_t count, ncclDataType_t type) {
  return fmt::format("n={} {}", count, type == ncclInt64 ? "int64" : "float");
}

template <class T>
void add_all(const World& world, void* to, std::size_t count, std::size_t skip = 0) {
  std::vector<T> sum(count);
  for (const void* shown : world.shown) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<const T*>(shown)[skip + i];
  }
  std::memcpy(to, sum.data(), count * sizeof(T));
}

ncclResult_t result() { return static_cast<ncclResult_t>(thread_faults.call_error); }

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank, size;

  // `work` of a rank while all show their data.
  template <class Work>
  ncclResult_t together(const void* data, Work work) const {
    if (result() != ncclSuccess) return result();
    world->shown[static_cast<std::size_t>(rank)] = place_of(data);
    world->there.arrive_and_wait();
    work();
    world->there.arrive_and_wait();
    return ncclSuccess;
  }
};

namespace {

// What the end of this thread's open group brings.
struct Arrival {
  int from;
  void* to;
  std::size_t bytes;
};
thread_local std::vector<Arrival> arrivals;
thread_local ncclComm_t group_of = nullptr;

}  // namespace

namespace hanse::fake {

void* (*place_of)(const void* given) = [](const void* given) { return const_cast<void*>(given); };
Faults& faults() { return thread_faults; }
std::vector<std::string>& calls() { return thread_calls; }
void choose_device(const std::string& chosen) { device = chosen; }
bool stream_has_ended() {
  note("query");
  return thread_faults.queries_to_go-- <= 0;
}

}  // namespace hanse::fake

cudaError_t cudaStreamQuery(cudaStream_t) {
  return static_cast<cudaError_t>(thread_faults.device_error);
}
const char* cudaGetErrorString(cudaError_t) { return "an illegal memory access"; }

ncclResult_t ncclGetVersion(int* version) {
  *version = 23007;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int number = 0;
  const std::lock_guard lock(worlds_mutex);
  note("GetUniqueId");
  std::strcpy(id->internal, fmt::format("world {}", ++number).c_str());
  return result();
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  note(fmt::format("CommInitRank {} of {}", rank, ranks));
  if (result() != ncclSuccess) return result();
  const std::lock_guard lock(worlds_mutex);
  std::shared_ptr<World>& world = worlds[id.internal];
  if (!world) world = std::make_shared<World>(ranks);
  *comm = new ncclComm{world, rank, ranks};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  note("CommDestroy");
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  note("CommAbort");
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = static_cast<ncclResult_t>(thread_faults.async_error);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited" : "unhandled system error";
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t comm, cudaStream_t) {
  note(fmt::format("Reduce {} root={}", values(count, type), root));
  return comm->together(from, [&] {
    if (comm->rank != root) return;
    type == ncclInt64 ? add_all<int64_t>(*comm->world, place_of(to), count)
                      : add_all<float>(*comm->world, place_of(to), count);
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t) {
  note(fmt::format("Broadcast {} root={}", values(count, type), root));
  return comm->together(from, [&] {
    const void* data = comm->world->shown[static_cast<std::size_t>(root)];
    if (comm->rank != root) std::memcpy(place_of(to), data, count * bytes_of(type));
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t) {
  note("ReduceScatter " + values(count, type));
  return comm->together(from, [&] {
    const std::size_t skip = static_cast<std::size_t>(comm->rank) * count;
    type == ncclInt64 ? add_all<int64_t>(*comm->world, place_of(to), count, skip)
                      : add_all<float>(*comm->world, place_of(to), count, skip);
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
  note("AllGather " + values(count, type));
  return comm->together(from, [&] {
    auto* next = static_cast<char*>(place_of(to));
    for (const void* shown : comm->world->shown) {
      std::memcpy(next, shown, count * bytes_of(type));
      next += count * bytes_of(type);
    }
  });
}

ncclResult_t ncclGroupStart() {
  note("GroupStart");
  return result();
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t) {
  note(fmt::format("Send {} to={}", values(count, type), peer));
  const auto* first = static_cast<const char*>(place_of(from));
  const std::lock_guard lock(comm->world->mutex);
  comm->world->messages[{comm->rank, peer}].emplace_back(first, first + count * bytes_of(type));
  comm->world->sent.notify_all();
  group_of = comm;
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  note(fmt::format("Recv {} from={}", values(count, type), peer));
  arrivals.push_back({peer, place_of(to), count * bytes_of(type)});
  group_of = comm;
  return ncclSuccess;
}

// Waits for what it receives alone: ranks with nothing to send or receive have no part in it.
ncclResult_t ncclGroupEnd() {
  note("GroupEnd");
  if (group_of == nullptr) return ncclSuccess;
  World& world = *group_of->world;
  const int rank = group_of->rank;
  group_of = nullptr;
  const auto here = std::exchange(arrivals, {});
  if (result() != ncclSuccess) return result();
  for (const Arrival& one : here) {
    std::unique_lock lock(world.mutex);
    auto& messages = world.messages[{one.from, rank}];
    world.sent.wait(lock, [&] { return !messages.empty(); });
    std::memcpy(one.to, messages.front().data(), one.bytes);
    messages.pop_front();
  }
  return ncclSuccess;
}
