// Memory of LibTorch's tensors on the pretended GPU, pinned memory, and copies.
#include "model/device/pretended/tensors.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/version.h>

#include "model/device/pretended/streams.hpp"

#if TORCH_VERSION_MAJOR >= 2
#include <ATen/detail/PrivateUse1HooksInterface.h>
#else
#include <ATen/detail/CUDAHooksInterface.h>
#endif

namespace hanse::pretended {

namespace {

at::Device here() { return {at::kPrivateUse1, static_cast<at::DeviceIndex>(current_ordinal())}; }

// The GPU that a tensor is asked for: LibTorch names it, or means this thread's.
int ordinal_of(const c10::optional<at::Device>& device) {
  return device && device->has_index() ? device->index() : current_ordinal();
}

void give_back(void* block) {
  if (block == nullptr) return;
  const std::lock_guard lock(Device::get().mutex);
  Device::get().give(static_cast<std::byte*>(block));
}

at::DataPtr take_memory(std::size_t bytes) {
  if (bytes == 0) return {nullptr, here()};
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  void* const block = device.take(bytes);
  return {block, block, &give_back, here()};
}

// Memory of the host from which the device copies while the host goes on. It is not reused before
// the copies have ended, but whoever has it may write to it.
class Pinned {
 public:
  using Bytes = std::shared_ptr<std::byte[]>;

  static Pinned& get() {
    static auto* all = new Pinned;
    return *all;
  }

  at::DataPtr take(std::size_t bytes) {
    const std::lock_guard lock(Device::get().mutex);
    Device::get().refuse_in_recording("pinned memory");
    if (bytes == 0) return {nullptr, at::kCPU};
    Bytes memory(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)),
                 std::free);
    std::memset(memory.get(), 0xff, bytes);
    std::byte* const first = memory.get();
    blocks_[first] = {std::move(memory), bytes};
    return {first, first, &give, at::kCPU};
  }

  // Keeps the memory; null: the place is in memory that the system may move.
  Bytes holder(const void* place) const {
    const auto* at = static_cast<const std::byte*>(place);
    const auto behind = blocks_.upper_bound(at);
    if (behind == blocks_.begin()) return nullptr;
    const auto& [first, block] = *std::prev(behind);
    return at < first + block.second ? block.first : nullptr;
  }

 private:
  static void give(void* first) {
    const std::lock_guard lock(Device::get().mutex);
    get().blocks_.erase(static_cast<std::byte*>(first));
  }

  std::map<const std::byte*, std::pair<Bytes, std::size_t>> blocks_;
};

#if TORCH_VERSION_MAJOR >= 2
#define HANSE_ALLOCATE(type) at::DataPtr allocate(std::size_t type) override
#else
#define HANSE_ALLOCATE(type) at::DataPtr allocate(std::size_t type) const override
#endif

struct Allocator final : at::Allocator {
  HANSE_ALLOCATE(bytes) { return take_memory(bytes); }
  at::DeleterFnPtr raw_deleter() const override { return &give_back; }
#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const Memory& memory = Device::get().memory;
    std::memcpy(memory.host(to), memory.host(from), bytes);
  }
#endif
};
Allocator allocator;

struct PinnedAllocator final : at::Allocator {
  HANSE_ALLOCATE(bytes) { return Pinned::get().take(bytes); }
#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
#endif
};
PinnedAllocator pinned_allocator;

#undef HANSE_ALLOCATE

// Where LibTorch asks for pinned memory.
#if TORCH_VERSION_MAJOR >= 2
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* place) const override {
    return Pinned::get().holder(place) != nullptr;
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
};
const bool is_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();
#else
struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
};
const bool is_registered = [] {
  at::CUDAHooksRegistry()->Register(
      "CUDAHooks", [](at::CUDAHooksArgs arguments) -> std::unique_ptr<at::CUDAHooksInterface> {
        return std::make_unique<Hooks>(arguments);
      });
  return true;
}();
#endif

// The current stream, and events, as LibTorch asks for them.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  at::DeviceType type() const override { return at::kPrivateUse1; }
  at::Device exchangeDevice(at::Device device) const override {
    const at::Device before = here();
    choose_ordinal(device.index());
    return before;
  }
  at::Device getDevice() const override { return here(); }
  void setDevice(at::Device device) const override { choose_ordinal(device.index()); }
  void uncheckedSetDevice(at::Device device) const noexcept override {
    choose_ordinal(device.index());
  }
  at::DeviceIndex deviceCount() const noexcept override { return kOrdinals; }
  at::Stream getStream(at::Device device) const noexcept override {
    const std::lock_guard lock(Device::get().mutex);
    const OrdinalScope scope(device.index());
    return named(Device::get().stream());
  }
  at::Stream getDefaultStream(at::Device device) const override {
    return named(Device::get().default_stream(device.index()));
  }
  at::Stream getStreamFromGlobalPool(at::Device device, bool) const override {
    const std::lock_guard lock(Device::get().mutex);
    const OrdinalScope scope(device.index());
    return named(Device::get().make_stream());
  }
  at::Stream exchangeStream(at::Stream stream) const noexcept override {
    const std::lock_guard lock(Device::get().mutex);
    return named(Device::get().choose(Device::get().stream_of(stream.id())));
  }
  void record(void** event, const at::Stream& stream, const at::DeviceIndex,
              const c10::EventFlag) const override {
    const std::lock_guard lock(Device::get().mutex);
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = Device::get().event(Device::get().stream_of(stream.id()));
  }
  void block(void* event, const at::Stream& stream) const override {
    const std::lock_guard lock(Device::get().mutex);
    if (event == nullptr) return;
    Device::get().put_behind(*static_cast<Event*>(event), Device::get().stream_of(stream.id()));
  }
  void destroyEvent(void* event, const at::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  bool queryStream(const at::Stream& stream) const override {
    const std::lock_guard lock(Device::get().mutex);
    return Device::get().stream_of(stream.id()).queue.empty();
  }
  void synchronizeStream(const at::Stream& stream) const override {
    const std::lock_guard lock(Device::get().mutex);
    Device::get().wait(Device::get().stream_of(stream.id()));
  }

  static at::Stream named(const Stream& stream) {
    const at::Device device(at::kPrivateUse1, static_cast<at::DeviceIndex>(stream.ordinal));
    return at::Stream(at::Stream::UNSAFE, device, static_cast<c10::StreamId>(stream.id));
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// --- Copies.

void upload(const at::Tensor& from, const at::Tensor& to, bool may_lag) {
  Device& device = Device::get();
  device.refuse_in_recording("a copy from the host");
  ++device.counts.uploads;
  device.counts.uploaded_bytes += static_cast<int64_t>(from.nbytes());
  // What is not pinned is read at once.
  const Pinned::Bytes holder = Pinned::get().holder(from.data_ptr());
  const at::Tensor source = holder ? from.detach() : from.detach().clone();
  device.start([holder, source, to = to.detach()] { host_view(to).copy_(source); },
               {to.data_ptr()});
  if (!may_lag) device.wait();
}

void download(const at::Tensor& from, const at::Tensor& to, bool may_lag) {
  Device& device = Device::get();
  device.refuse_in_recording("a copy to the host");
  ++device.counts.downloads;
  device.counts.downloaded_bytes += static_cast<int64_t>(from.nbytes());
  const Pinned::Bytes holder = Pinned::get().holder(to.data_ptr());
  device.start(
      [holder, to = to.detach(), from = from.detach()]() mutable { to.copy_(host_view(from)); },
      {});
  if (!may_lag || !holder) device.wait();
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool may_lag) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  const at::NoGradGuard no_grad;
  const OrdinalScope scope((is_here(from) ? from : to).device().index());
  if (!is_here(from)) {
    upload(from, to, may_lag);
  } else if (!is_here(to)) {
    download(from, to, may_lag);
  } else {
    if (!device.stream().recording) ++device.counts.launches;
    const Task copy = [from = from.detach(), to = to.detach()] {
      host_view(to).copy_(host_view(from));
    };
    if (from.device() == to.device()) {
      device.start(copy, {to.data_ptr()});
    } else {  // both GPUs' streams wait
      device.start_at_once([] {}, {});
      const OrdinalScope other(to.device().index());
      device.start_at_once(copy, {to.data_ptr()});
    }
  }
  return to;
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor make_empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type,
                      c10::optional<at::Layout>, c10::optional<at::Device> device,
                      c10::optional<bool>, c10::optional<c10::MemoryFormat> format) {
  const OrdinalScope scope(ordinal_of(device));
  return at::detail::empty_generic(sizes, &allocator, kKeys, c10::dtype_or_default(type), format);
}

at::Tensor make_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                        c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                        c10::optional<at::Device> device, c10::optional<bool>) {
  const OrdinalScope scope(ordinal_of(device));
  return at::detail::empty_strided_generic(sizes, strides, &allocator, kKeys,
                                           c10::dtype_or_default(type));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &make_empty);
  library.impl("empty_strided", &make_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("as_strided", [](const at::Tensor& self, at::IntArrayRef sizes,
                                at::IntArrayRef strides, c10::optional<int64_t> offset) {
    return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
  });
  library.impl("view", [](const at::Tensor& self, at::IntArrayRef sizes) {
    return at::native::view(self, sizes);
  });
  library.impl("_reshape_alias",
               [](const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
                 return at::native::_reshape_alias(self, sizes, strides);
               });
}

}  // namespace

at::Tensor host_view(const at::Tensor& tensor) {
  return at::from_blob(Device::get().memory.host(tensor.data_ptr()), tensor.sizes(),
                       tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

at::Tensor copy_here(const at::Tensor& on_host) {
  at::Tensor made = at::detail::empty_strided_generic(on_host.sizes(), on_host.strides(),
                                                      &allocator, kKeys, on_host.scalar_type());
  host_view(made).copy_(on_host);
  return made;
}

void give_shape(const at::Tensor& tensor, at::IntArrayRef sizes) {
  if (tensor.sizes() == sizes) return;
  TORCH_CHECK(tensor.numel() == 0, "the pretended GPU: an output has another shape");
  auto* const to = tensor.unsafeGetTensorImpl();
  to->set_sizes_contiguous(sizes);
  const std::size_t bytes = tensor.nbytes();
  if (tensor.storage().nbytes() >= bytes) return;
  to->unsafe_storage().set_data_ptr(take_memory(bytes));
  to->unsafe_storage().set_nbytes(bytes);
}

}  // namespace hanse::pretended
