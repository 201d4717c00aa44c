#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "library.hpp"

namespace hanse {

namespace {

// Prints the version, the program, and the first shared library of Python that exists.
constexpr const char* kQuestions = R"(
import os, sys, sysconfig
value = sysconfig.get_config_var
name = "%d.%d" % sys.version_info[:2]
folders = [value("LIBDIR"), os.path.join(sys.base_prefix, "lib")]
files = [value("INSTSONAME"), value("LDLIBRARY"), "libpython%s.so.1.0" % name]
places = [os.path.join(d, f) for d in folders for f in files if d and f and ".so" in f]
print(name, sys.executable, next(filter(os.path.isfile, places), ""), sep="\n")
)";

std::string in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split_list(path ? path : "", ':')) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// The lines that a command prints; none when it fails.
std::vector<std::string> lines_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), got);
  }
  return pclose(pipe) == 0 ? split_list(text, '\n') : std::vector<std::string>();
}

std::string load() {
  const char* given = std::getenv("HANSE_PYTHON");
  const bool is_given = given != nullptr && *given != '\0';
  const std::string program = is_given ? given : in_path("python3");
  const std::string where = is_given ? "HANSE_PYTHON" : "PATH";
  if (program.empty()) {
    throw InvalidArgument("no python3", where, "HANSE_PYTHON names another place");
  }
  const auto answers = lines_of(quoted(program) + " -c " + quoted(kQuestions));
  if (answers.size() < 3) {
    throw InvalidArgument("no Python 3 that runs: " + program, where,
                          "HANSE_PYTHON=/usr/bin/python3, for example");
  }
  const std::string &version = answers[0], &executable = answers[1], &library = answers[2];
  const auto build = fmt::format("scripts/build-python-bridge {}", executable);
  if (library.empty()) {
    throw InvalidArgument(
        fmt::format("Python {} has no shared library libpython: {}", version, executable), where,
        fmt::format("build it with --enable-shared and then run {}, or choose another Python",
                    build));
  }
  const auto bridge = fmt::format("hanse-python{}.so", version);
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw InvalidArgument(std::string("Python's library cannot be loaded: ") + dlerror(), where);
  }
  if (dlopen(bridge.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    throw InvalidArgument(
        fmt::format("no bridge to Python {} ({}): {}", version, executable, dlerror()), where,
        "build it with: " + build);
  }
  setenv("HANSE_PYTHON", executable.c_str(), 1);  // the bridge starts this one
  return bridge;
}

}  // namespace

const std::string& python_bridge() {
  static const std::string bridge = load();
  return bridge;
}

}  // namespace hanse
