// What hanse-torch.so finds in the place of its own functions (exports.map), and what tests ask.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <sys/mman.h>

#include "model/device/device.hpp"
#include "model/device/fake_nccl.hpp"
#include "model/device/kernels.hpp"
#include "model/device/pretended/items.hpp"
#include "model/device/pretended/pretended_gpu.hpp"
#include "model/device/pretended/streams.hpp"

namespace hanse {

namespace pretended {

namespace {

std::atomic<int64_t> threads = [] {
  const char* text = std::getenv("HANSE_FAKE_GPU_THREADS");
  return text != nullptr ? std::stoll(text) : 1;
}();

// NCCL works on a GPU's memory behind what the stream of its rank has.
const bool has_nccl = [] {
  fake::place_of = [](const void* given) -> void* {
    if (given == nullptr) return nullptr;
    Device& device = Device::get();
    const std::lock_guard lock(device.mutex);
    TORCH_CHECK(device.memory.has(given), "NCCL is given an address of the host's memory");
    TORCH_CHECK(device.ordinal_of(*device.memory.block_of(given)) == current_ordinal(),
                "NCCL is given memory of another GPU");
    device.start_at_once([] {}, {});
    return device.memory.host(given);
  };
  return true;
}();

bool is_mapped(const void* address) {
  constexpr uint64_t kPage = 4096;
  unsigned char is_in_core = 0;
  return mincore(std::bit_cast<void*>(std::bit_cast<uint64_t>(address) / kPage * kPage), 1,
                 &is_in_core) == 0;
}

// The lowest address of programs and their memory. What is below it may be two small numbers.
constexpr uint64_t kLowest = uint64_t{0x55} << 40;

// The addresses among the numbers of a kernel's arguments, and their places in them. A number that
// looks like an address of the host is one. `ordinal`: the GPU that must have them; -1: any.
template <class One>
std::vector<std::pair<std::size_t, void*>> addresses(const One& work, const Memory& memory,
                                                     int ordinal = -1) {
  static_assert(std::is_trivially_copyable_v<One>);
  One plain = work;
  __builtin_clear_padding(&plain);
  std::vector<std::pair<std::size_t, void*>> found;
  for (std::size_t at = 0; at + sizeof(void*) <= sizeof(One); at += sizeof(void*)) {
    void* address = nullptr;
    std::memcpy(&address, reinterpret_cast<const std::byte*>(&plain) + at, sizeof(address));
    const auto number = std::bit_cast<uint64_t>(address);
    if (memory.has(address)) {
      const Memory::Block* block = memory.block_of(address);
      TORCH_CHECK(block != nullptr, "a kernel is given memory that no tensor has, in byte ", at,
                  " of its arguments");
      TORCH_CHECK(ordinal < 0 || Device::get().ordinal_of(*block) == ordinal, "a kernel on GPU ",
                  ordinal, " is given memory of another GPU, in byte ", at, " of its arguments");
      found.emplace_back(at, address);
    } else {
      TORCH_CHECK(number < kLowest || number >> 47 != 0 || !is_mapped(address),
                  "a kernel is given an address of the host's memory, in byte ", at,
                  " of its arguments");
    }
  }
  return found;
}

template <class One>
One on_host(One work, const Memory& memory) {
  for (const auto& [at, address] : addresses(work, memory)) {
    const std::byte* const place = memory.host(address);
    std::memcpy(reinterpret_cast<std::byte*>(&work) + at, &place, sizeof(place));
  }
  return work;
}

}  // namespace

}  // namespace pretended

using pretended::Device;

std::vector<Gpu> gpus() {
  const std::lock_guard lock(Device::get().mutex);
  const char* const text = std::getenv("HANSE_FAKE_GPUS");
  std::vector<Gpu> found(text != nullptr ? std::stoull(text) : 1);
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i] = {.identity = "GPU pretended " + std::to_string(i),
                .name = "pretended, compute capability 0.0",
                .memory_bytes = static_cast<int64_t>(Device::get().memory.limit())};
  }
  return found;
}

std::string use_gpu(int64_t index, Precision) {
  pretended::choose_ordinal(static_cast<int>(index));
  return "privateuseone:" + std::to_string(index);
}
int64_t free_bytes() {
  const std::lock_guard lock(Device::get().mutex);
  return static_cast<int64_t>(Device::get().memory.limit() - Device::get().memory.used());
}
std::string cuda_version() { return "pretended"; }
void run_on_gpu(const Work& work, int64_t n) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  std::visit(
      [&](const auto& one) {
        std::vector<const void*> places;
        const int ordinal = pretended::current_ordinal();
        for (const auto& address : pretended::addresses(one, device.memory, ordinal)) {
          places.push_back(address.second);
        }
        if (!device.stream().recording) ++device.counts.launches;
        if (n <= 0) return;
        device.start(
            [&device, one, n] {
              pretended::run_items(pretended::on_host(one, device.memory), n, pretended::threads);
            },
            places);
      },
      work);
}

}  // namespace hanse

extern "C" const hanse::pretended::PretendedGpu* hanse_pretended_gpu() {
  using hanse::pretended::Counts;
  using hanse::pretended::Device;
  static constexpr hanse::pretended::PretendedGpu gpu{
      .counts =
          [] {
            const std::lock_guard lock(Device::get().mutex);
            return Device::get().counts;
          },
      .used_bytes =
          [] {
            const std::lock_guard lock(Device::get().mutex);
            return static_cast<int64_t>(Device::get().memory.used());
          },
      .set_limit =
          [](int64_t bytes) {
            const std::lock_guard lock(Device::get().mutex);
            Device::get().memory.set_limit(static_cast<std::size_t>(bytes));
          },
      .wait =
          [] {
            const std::lock_guard lock(Device::get().mutex);
            Device::get().wait_for_device();
          },
      .set_threads = [](int64_t count) { hanse::pretended::threads = count; },
  };
  return &gpu;
}
