#include "hanse/model/torch_library.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <cblas.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

namespace {

std::atomic<bool> used = false;

constexpr const char* kFile = "hanse-torch.so";

// What is left to say why the process ends where a library has taken the last byte.
std::vector<char> reserve;

// An exception of a library's first steps comes through dlopen, which ends the process.
[[noreturn]] void say_and_end() {
  std::vector<char>().swap(reserve);
  report_error(fmt::format("LibTorch cannot be loaded: {} ({})", out_of_memory_text(), kFile));
  std::_Exit(static_cast<int>(ExitStatus::kBadInput));
}

void* open_library() {
  constexpr std::size_t kReserve = std::size_t{1} << 20;
  reserve.resize(kReserve);
  const std::terminate_handler before = std::set_terminate(say_and_end);
  void* const library = dlopen(kFile, RTLD_LAZY | RTLD_GLOBAL);
  std::set_terminate(before);
  std::vector<char>().swap(reserve);
  return library;
}

const TorchLibrary& load() {
  void* library = open_library();
  using Entry = const TorchLibrary* (*)();
  const auto entry =
      library != nullptr ? reinterpret_cast<Entry>(dlsym(library, "hanse_torch_library")) : nullptr;
  if (entry == nullptr) {
    throw InvalidArgument(
        std::string("LibTorch cannot be loaded: ") + dlerror(), kFile,
        "scripts/build adds it; linear, mlp, cnn-leaf, cnn-cifar, "
        "cnn-mcmahan, cnn-byzfl, lenet, resnet18 and lstm on CPUs work without it");
  }
  const TorchLibrary& found = *entry();
  found.set_threads(openblas_get_num_threads());
  used = true;
  return found;
}

}  // namespace

const TorchLibrary& torch_library() {
  static const TorchLibrary& library = load();
  return library;
}

bool uses_torch() { return used; }

}  // namespace hanse
