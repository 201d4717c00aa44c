#include "hanse/model/torch_library.hpp"

#include <atomic>

#include <cblas.h>
#include <dlfcn.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

std::atomic<bool> used = false;

const TorchLibrary& load() {
  constexpr const char* kFile = "hanse-torch.so";
  void* library = dlopen(kFile, RTLD_LAZY | RTLD_GLOBAL);
  using Entry = const TorchLibrary* (*)();
  const auto entry =
      library != nullptr ? reinterpret_cast<Entry>(dlsym(library, "hanse_torch_library")) : nullptr;
  if (entry == nullptr) {
    throw InvalidArgument(std::string("LibTorch cannot be loaded: ") + dlerror(), kFile,
                          "linear, mlp, cnn-leaf, cnn-cifar, lenet, resnet18 and lstm on CPUs work "
                          "without it");
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
