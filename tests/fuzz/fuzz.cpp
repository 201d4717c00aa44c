// libFuzzer's program. `fuzz READER OPTION ...` takes libFuzzer's options, and `fuzz READER FILE`
// reads one input; `fuzz --seeds FOLDER` writes FOLDER/READER/seed-N for all readers, and prints
// their names.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <hdf5.h>

#include "fuzz/readers.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "support/scratch_folder.hpp"

namespace {

using namespace hanse;

// libFuzzer starts the program again for some of its work: the name is in the environment.
constexpr const char* kReader = "HANSE_FUZZED_READER";

const ScratchFolder& folder() {
  static const ScratchFolder folder;
  return folder;
}

const FuzzedReader& reader() {
  const char* name = std::getenv(kReader);
  for (const FuzzedReader& reader : fuzzed_readers()) {
    if (name && reader.name == name) return reader;
  }
  std::fprintf(stderr, "fuzz: unknown reader '%s'\n", name ? name : "");
  std::exit(2);
}

void write_seeds(const std::string& corpus) {
  for (const FuzzedReader& reader : fuzzed_readers()) {
    const std::string own = corpus + "/" + reader.name;
    std::filesystem::create_directories(own);
    int number = 0;
    for (const std::string& seed : reader.seeds(folder().path())) {
      write_bytes(own + "/seed-" + std::to_string(number++), seed);
    }
    std::puts(reader.name.c_str());
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  char** words = *arguments;
  if (*count == 3 && std::string(words[1]) == "--seeds") {
    write_seeds(words[2]);
    std::exit(0);
  }
  if (*count > 1 && !std::getenv(kReader)) {
    setenv(kReader, words[1], 1);
    words[1] = words[0];
    ++*arguments;
    --*count;
  }
  set_speaker(false);
  H5set_free_list_limits(-1, -1, -1, -1, -1, -1);  // a file's cache of 1 MB is not made anew
  reader();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const FuzzedReader& chosen = reader();
  try {
    chosen.read({reinterpret_cast<const char*>(data), size}, folder().path());
  } catch (const Error&) {  // whatever else is thrown ends the program where it is thrown
  }
  return 0;
}
