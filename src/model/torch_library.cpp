#include "hanse/model/torch_library.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <cblas.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

std::atomic<bool> used = false;

constexpr const char* kFile = "hanse-torch.so";
constexpr const char* kChoice = "HANSE_TORCH";
constexpr const char* kAdd =
    "scripts/setup --torch and another scripts/build add the newest, for HANSE_TORCH=newest";

// 2.15.0 before 2.9.1, which texts compare otherwise.
std::vector<int64_t> numbers_of(const std::string& version) {
  std::vector<int64_t> numbers;
  for (const std::string& part : split_list(version, '.')) {
    numbers.push_back(std::strtoll(part.c_str(), nullptr, 10));
  }
  return numbers;
}

// The file that HANSE_TORCH chooses.
std::string chosen_file() {
  const char* const wanted = std::getenv(kChoice);
  const std::string choice = wanted == nullptr ? "" : wanted;
  if (choice.empty() || choice == "system") return kFile;
  const std::vector<std::string> versions = torch_versions();
  const std::string version = choice == "newest" && !versions.empty() ? versions.back() : choice;
  if (std::ranges::count(versions, version) > 0) return fmt::format("hanse-torch-{}.so", version);
  throw InvalidArgument(fmt::format("no LibTorch {} lies beside {}", choice, kFile), kChoice,
                        versions.empty() ? kAdd : "system, newest, " + join(versions, ", "));
}

// A wheel's library is made for one version of PyPI's torch, which is installed beside the wheel:
// SITE/hanse_program/lib/hanse has the file of this name.
constexpr const char* kPinned = "torch-version";

std::filesystem::path own_folder() {
  Dl_info here;
  if (dladdr(&kFile, &here) == 0) return {};
  std::error_code error;
  return std::filesystem::absolute(here.dli_fname, error).parent_path();
}

// The version that a wheel needs; empty: no wheel.
std::string pinned_torch() {
  std::ifstream file(own_folder() / kPinned);
  std::string version;
  std::getline(file, version);
  return version;
}

// Throws InvalidArgument where a wheel's torch is missing or has another version.
void require_pinned_torch(const std::string& wanted) {
  const auto site = own_folder().parent_path().parent_path().parent_path();
  const auto place = site / "torch" / "version.py";
  std::ifstream file(place);
  std::string found;
  for (std::string line; found.empty() && std::getline(file, line);) {
    const auto words = split_list(line, '\'');
    if (line.starts_with("__version__") && words.size() > 1) found = words[1];
  }
  if (found.substr(0, found.find('+')) == wanted) return;
  throw InvalidArgument(fmt::format("this wheel needs torch {}, and {} is installed", wanted,
                                    found.empty() ? "none" : found),
                        place.string(), torch_command());
}

// What is left to say why the process ends where a library has taken the last byte.
std::vector<char> reserve;

// An exception of a library's first steps comes through dlopen, which ends the process.
[[noreturn]] void say_and_end() {
  std::vector<char>().swap(reserve);
  report_error(
      fmt::format("LibTorch cannot be loaded: {} ({})", out_of_memory_text(), chosen_file()));
  std::_Exit(static_cast<int>(ExitStatus::kBadInput));
}

void* open_library(const std::string& file) {
  constexpr std::size_t kReserve = std::size_t{1} << 20;
  reserve.resize(kReserve);
  const std::terminate_handler before = std::set_terminate(say_and_end);
  void* const library = dlopen(file.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  std::set_terminate(before);
  std::vector<char>().swap(reserve);
  return library;
}

const TorchLibrary& load() {
  const std::string file = chosen_file();
  const std::string pinned = pinned_torch();
  if (!pinned.empty()) require_pinned_torch(pinned);
  void* library = open_library(file);
  using Entry = const TorchLibrary* (*)();
  const auto entry =
      library != nullptr ? reinterpret_cast<Entry>(dlsym(library, "hanse_torch_library")) : nullptr;
  if (entry == nullptr) {
    throw InvalidArgument(std::string("LibTorch cannot be loaded: ") + dlerror(), file,
                          torch_command() +
                              " adds it; linear, mlp, cnn-leaf, cnn-cifar, "
                              "cnn-mcmahan, cnn-byzfl, lenet, resnet18, lstm and transformer on "
                              "CPUs work without it");
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

std::string torch_command() {
  const std::string pinned = pinned_torch();
  return pinned.empty() ? "scripts/build" : "pip install torch==" + pinned;
}

std::vector<std::string> torch_versions() {
  std::vector<std::string> versions;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(own_folder(), error)) {
    const std::string name = entry.path().filename(), begin = "hanse-torch-", end = ".so";
    if (!name.starts_with(begin) || !name.ends_with(end)) continue;
    versions.push_back(name.substr(begin.size(), name.size() - begin.size() - end.size()));
  }
  std::ranges::sort(versions, {}, numbers_of);
  return versions;
}

std::string newer_torch_hint(const std::string& version) {
  const std::vector<std::string> versions = torch_versions();
  if (versions.empty()) return kAdd;
  if (numbers_of(versions.back()) <= numbers_of(version)) {
    return "no newer LibTorch is there: compose the operator of others in the network";
  }
  return fmt::format("HANSE_TORCH={} in the environment takes the LibTorch that has it",
                     versions.back());
}

}  // namespace hanse
