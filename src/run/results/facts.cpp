#include "facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

namespace {

constexpr const char* kDevice = "run.device";
constexpr const char* kTorch = "libtorch";

// A run may go on with another LibTorch, as after an upgrade; its bits are then of neither alone.
void tell_of_other_torch(const State& facts) {
  if (!facts.contains(kTorch) || !uses_torch()) return;
  const std::string before = facts.get_text(kTorch), now = torch_library().version();
  if (before == now) return;
  warning(
      fmt::format("the rounds until now were computed by LibTorch {}, the others will be by {}: "
                  "their bits may differ; hint: HANSE_TORCH chooses the version",
                  before, now));
}

}  // namespace

std::string data_digest(const Federation& federation) {
  return fmt::format("{:016x}", federation.digest());
}

State data_facts(const Federation& federation) {
  State facts;
  facts.put("clients", federation.clients());
  facts.put("held_out", federation.held_out());
  facts.put("samples", federation.samples());
  facts.put("classes", federation.classes());
  facts.put("shape", std::span<const int64_t>(federation.sample_shape()));
  facts.put_text("digest", data_digest(federation));
  facts.put_text("client_names", federation.names().clients.digest());
  facts.put_text("class_names", federation.names().classes.digest());
  return facts;
}

void require_same_data(const Federation& federation, const State& facts, const std::string& where) {
  const State now = data_facts(federation);
  const auto refuse = [&](const std::string& what) {
    throw InvalidArgument("the data are not those of the checkpoint: " + what, where,
                          "put back what the run has started with, or start a new run");
  };
  for (const auto& [name, counted] : {std::pair{"clients", "clients"},
                                      {"held_out", "clients held out"},
                                      {"samples", "samples"},
                                      {"classes", "classes"}}) {
    const auto before = facts.get_one<int64_t>(name);
    const auto found = now.get_one<int64_t>(name);
    if (found != before) refuse(fmt::format("{} {}, there were {}", found, counted, before));
  }
  const auto& shape = facts.get<int64_t>("shape");
  if (federation.sample_shape() != shape) {
    refuse(fmt::format("a sample has the shape {}, it had {}", federation.sample_shape(), shape));
  }
  for (const auto& [name, what] : {std::pair{"client_names", "the names of the clients"},
                                   {"class_names", "the names of the classes"}}) {
    if (facts.contains(name) && now.get_text(name) != facts.get_text(name)) refuse(what);
  }
  if (now.get_text("digest") != facts.get_text("digest")) {
    refuse("samples, labels, or which client has them");
  }
}

void note_file(const std::string& key, const std::string& path, Communicator& comm,
               Assembly& assembly) {
  if (!path.empty()) note_files(key, {path}, comm, assembly);
}

void note_files(const std::string& key, const std::vector<std::string>& paths, Communicator& comm,
                Assembly& assembly) {
  agree_on(comm, [&] {
    std::vector<std::string> digests;
    for (const std::string& path : paths) digests.push_back(file_digest_hex(path, 0));
    assembly.files[key] = fmt::format("{}", fmt::join(digests, " "));
  });
  require_same(comm, "files of " + key, assembly.files[key], "every host needs the same file");
}

State part_facts(const Assembly& assembly) {
  State facts;
  for (const auto& [key, digest] : assembly.files) facts.put_text(key, digest);
  facts.put_text(kDevice, assembly.trained_on);
  if (uses_torch()) facts.put_text(kTorch, torch_library().version());
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
  tell_of_other_torch(facts);
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
