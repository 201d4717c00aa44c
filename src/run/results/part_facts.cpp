#include "part_facts.hpp"

#include <fmt/format.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

namespace {

constexpr const char* kDevice = "run.device";

}  // namespace

void note_file(const std::string& key, const std::string& path, Communicator& comm,
               Assembly& assembly) {
  if (path.empty()) return;
  agree_on(comm, [&] { assembly.files[key] = file_digest_hex(path, 0); });
  require_same(comm, "files of " + key, assembly.files[key], "every host needs the same file");
}

State part_facts(const Assembly& assembly) {
  State facts;
  for (const auto& [key, digest] : assembly.files) facts.put_text(key, digest);
  facts.put_text(kDevice, assembly.trained_on);
  return facts;
}

void require_same_parts(const Assembly& assembly, const State& state) {
  State facts = state.part("files");
  if (state.contains("model_file")) {  // of an older version
    facts.put_text("model.path", state.get_text("model_file"));
  }
  if (facts.contains(kDevice) && facts.get_text(kDevice) != assembly.trained_on) {
    throw InvalidArgument(
        fmt::format("clients were trained on {}, and this start has {}: its bits would be others",
                    facts.get_text(kDevice), assembly.trained_on),
        kDevice, "resume where there is the same device");
  }
  for (const auto& [key, digest] : assembly.files) {
    if (!facts.contains(key) || facts.get_text(key) == digest) continue;
    if (key == kFrozenParameters) continue;  // which follow from the files
    throw InvalidArgument("the file has changed since the checkpoint", key,
                          "put back the file that the run has started with");
  }
  const auto frozen = assembly.files.find(kFrozenParameters);
  if (frozen == assembly.files.end() || !facts.contains(kFrozenParameters)) return;
  if (facts.get_text(kFrozenParameters) == frozen->second) return;
  throw InvalidArgument("the frozen parameters are not those of the checkpoint", "client.train",
                        "go on with the build that the run has started with");
}

}  // namespace hanse
