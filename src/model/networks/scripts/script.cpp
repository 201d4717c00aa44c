#include "networks/scripts/script.hpp"

#include <filesystem>

#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/zip_directory.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

namespace {

std::mutex generator_in_use;  // there is one for all threads

}  // namespace

// The interpreter's message ends with the error itself, as in "builtins.ValueError: Expected more";
// other messages begin with it.
std::string one_line(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
  const std::string label = "Error: ";
  const std::size_t at = text.rfind(label);
  const std::string rest(
      trim(std::string_view(text).substr(at == std::string::npos ? 0 : at + label.size())));
  return rest.substr(0, rest.find('\n'));
}

torch::jit::Module read_script(const std::string& path, const std::string& key,
                               const std::string& hint) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(missing_text(path), key, hint);
  }
  check_archive({path, "TorchScript", "save it with torch.jit.script(model).save(path)"});
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const std::exception& error) {
    const std::string what = one_line(error);
    const bool lacks_operator = what.find("Unknown builtin op") != std::string::npos;
    throw InvalidArgument(
        fmt::format("no TorchScript that LibTorch {} reads: {}", TORCH_VERSION, what), path,
        lacks_operator ? newer_torch_hint(TORCH_VERSION)
                       : "save it with torch.jit.script(model).save(path), by a torch that is not "
                         "newer");
  }
}

ScriptCall::ScriptCall(uint64_t seed, const at::Device& device)
    : generator_(generator_in_use), as_it_is_(false) {
  at::Generator generator =
      at::globalContext().defaultGenerator(device.is_cuda() ? device : at::Device(at::kCPU));
  generator.set_current_seed(seed);
}

}  // namespace hanse
