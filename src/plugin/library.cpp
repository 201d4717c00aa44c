#include "library.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

// The library's part of the interface; an older one's shorter struct leaves the rest empty.
HansePlugin load_library(const std::string& file, const std::string& where) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw InvalidArgument(std::string("the library cannot be loaded: ") + dlerror(), where);
  }
  using Entry = const HansePlugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "hanse_plugin"));
  if (entry == nullptr) {
    throw InvalidArgument("no plugin: it has no function hanse_plugin: " + file, where,
                          "include/hanse/plugin.h says what it must have");
  }
  const HansePlugin* found = entry();
  if (found == nullptr || found->version != HANSE_PLUGIN_VERSION) {
    throw InvalidArgument(
        fmt::format("the plugin is made for version {} of the interface, and this program has {}",
                    found ? found->version : 0, HANSE_PLUGIN_VERSION),
        where, "compile it with this program's include/hanse/plugin.h");
  }
  HansePlugin api{};
  std::memcpy(&api, found, std::min(found->size, sizeof(api)));
  if (api.create != nullptr && api.destroy != nullptr && api.last_error != nullptr) return api;
  throw InvalidArgument("the plugin lacks create, destroy or last_error", where);
}

// Splits "name=value, ..." into the names and the values.
std::pair<std::vector<std::string>, std::vector<std::string>> parse_args(const std::string& text,
                                                                         const std::string& where) {
  std::vector<std::string> names, values;
  if (trim(text).empty()) return {};
  for (const std::string& item : split_list(text)) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InvalidArgument(fmt::format("'{}' is no name=value", item), where, "write t=2, s=0.5");
    }
    names.emplace_back(trim(item.substr(0, equals)));
    values.emplace_back(trim(item.substr(equals + 1)));
  }
  return {names, values};
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

template <class T>
std::vector<T> copied(const void* data, int64_t bytes) {
  std::vector<T> values((static_cast<std::size_t>(bytes) + sizeof(T) - 1) / sizeof(T));
  if (bytes > 0) std::memcpy(values.data(), data, static_cast<std::size_t>(bytes));
  return values;
}

// Arrays of other types than the state's are stored as bytes in integers.
void put_array(void* sink, const HanseArray* array) {
  State& state = *static_cast<State*>(sink);
  const std::string name = array->name, type = array->type;
  const auto put = [&](auto values) {
    state.put(name + "/values", std::span<const typename decltype(values)::value_type>(values));
  };
  if (type == "<f8") {
    put(copied<double>(array->data, array->bytes));
  } else if (type == "<f4") {
    put(copied<float>(array->data, array->bytes));
  } else {
    put(copied<int64_t>(array->data, array->bytes));
  }
  state.put_text(name + "/type", type);
  state.put(name + "/bytes", array->bytes);
  state.put(name + "/shape", std::span(array->shape, static_cast<std::size_t>(array->dimensions)));
}

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

PluginRule::PluginRule(const RuleSource& source, HanseCreate create)
    : path_(source.file.path), where_(source.section + ".path") {
  if (source.section == "evaluate") where_ = "evaluate.metric";
  if (path_.empty()) {
    throw InvalidArgument("the rule has no file", where_,
                          source.python ? "name a Python file" : "name a library");
  }
  std::error_code code;
  if (!std::filesystem::is_regular_file(path_, code)) {
    throw InvalidArgument(missing_text(path_), where_);
  }
  const auto [names, values] = parse_args(source.file.args, source.section + ".args");
  const auto name_pointers = pointers(names), value_pointers = pointers(values);
  create.size = sizeof(create);
  create.path = path_.c_str();
  create.arguments = static_cast<int64_t>(names.size());
  create.names = name_pointers.data();
  create.values = value_pointers.data();
  // An absolute path, so that the loader does not search for it.
  api_ = load_library(source.python ? python_bridge() : std::filesystem::absolute(path_).string(),
                      where_);
  rule_ = api_.create(&create);
  if (rule_ == nullptr) throw InvalidArgument(api_.last_error(), where_);
}

PluginRule::~PluginRule() { api_.destroy(rule_); }

HanseNeeds PluginRule::needs() const {
  HanseNeeds said{.size = sizeof(HanseNeeds)};
  if (api_.needs != nullptr) require(api_.needs(rule_, &said));
  return said;
}

void PluginRule::require(int status) const {
  if (status != 0) throw InvalidArgument(api_.last_error(), where_);
}

void PluginRule::refuse(const std::string& what) const {
  throw InvalidArgument(fmt::format("{}: {}", path_, what), where_);
}

void PluginRule::require_function(bool has, const std::string& name) const {
  if (!has) refuse("the plugin has no function " + name);
}

State PluginRule::save() const {
  State state;
  if (api_.save != nullptr) require(api_.save(rule_, &state, put_array));
  return state;
}

void PluginRule::load(const State& state) {
  if (api_.load == nullptr) {
    if (state.arrays().empty()) return;
    refuse("the checkpoint has a state of the rule, which cannot load one");
  }
  std::vector<HanseArray> arrays;
  std::vector<std::string> names;
  names.reserve(state.arrays().size());  // pointers to the texts stay
  const std::string end = "/type";
  for (const auto& [key, type] : state.arrays()) {
    if (!key.ends_with(end)) continue;
    const std::string& name = names.emplace_back(key.substr(0, key.size() - end.size()));
    const auto& shape = state.get<int64_t>(name + "/shape");
    const void* data = std::visit([](const auto& values) -> const void* { return values.data(); },
                                  state.arrays().at(name + "/values"));
    arrays.push_back({.size = sizeof(HanseArray),
                      .name = name.c_str(),
                      .type = std::get<std::string>(type).c_str(),
                      .dimensions = static_cast<int64_t>(shape.size()),
                      .shape = shape.data(),
                      .data = data,
                      .bytes = state.get_one<int64_t>(name + "/bytes")});
  }
  require(api_.load(rule_, arrays.data(), static_cast<int64_t>(arrays.size())));
}

void PluginRule::visit(StateFields& fields) {
  State own = fields.loads() ? State() : save();
  fields.part("own", own);
  if (fields.loads()) load(own);
}

const std::string& python_bridge() {
  static const std::string bridge = load();
  return bridge;
}

}  // namespace hanse
