#include "frozen_cache.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/choice.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/config.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/model/frozen_cache.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "model.frozen-cache";
constexpr int64_t kMemoryShare = 2;  // auto takes one in so many parts of what there is

// Why passes compute what is frozen; empty: it can be kept.
std::string why_not(const Job& job) {
  const std::string changed = augmentation_key(job.client.augmentation);
  if (!changed.empty()) return changed + " changes samples, and what is frozen with them";
  return "";
}

// Some samples from all over the data.
std::vector<float> some_samples(const Federation& federation) {
  constexpr int64_t kCount = FreezeCase::kSamples;
  const int64_t size = federation.sample_values();
  std::vector<float> samples(to_index(kCount * size));
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t place = i * federation.samples() / kCount;
    federation.copy({place, place + 1}, samples.data() + i * size);
  }
  return samples;
}

// All that fixes the bits of the frozen values; `what`: the frozen part, and where it is computed.
std::string key_of(const Job& job, const Federation& federation, const FrozenCache& cache,
                   const std::string& what) {
  const std::string text = fmt::format(
      "{} {:016x} {} {} {} {} {} {}", kVersion, federation.digest(), cache.first_samples(), what,
      kernel_family(), uses_torch() ? torch_library().kernels() : "", job.run.threads,
      name_of(job.model.precision));
  return digest_hex(std::as_bytes(std::span(text)));
}

std::string folder_of(const Job& job) {
  if (!job.model.frozen_cache_path.empty()) return job.model.frozen_cache_path;
  const std::string folder = folder_of_data(job.data);
  if (!folder.empty()) return folder;
  throw InvalidArgument("the data has no folder for the file of frozen values", kKey,
                        "model.frozen-cache-path = FOLDER");
}

// Does the host's memory hold so many bytes? Throws InvalidArgument where the job asks for memory
// that is not there.
bool fits_memory(const Job& job, int64_t bytes) {
  if (job.model.frozen_cache == FrozenKept::kMemory) {
    require_planned_memory(static_cast<double>(bytes), "the frozen values of all samples take",
                           kKey, "model.frozen-cache = file or off");
    return true;
  }
  return bytes <= available_memory() / kMemoryShare;
}

// Nothing: they are kept in no store. Collective.
std::optional<FrozenStore> store_for(const Job& job, const std::string& key,
                                     const FrozenStore::Shape& shape, Communicator& comm,
                                     Communicator& host) {
  const FrozenKept asked = job.model.frozen_cache;
  if (asked == FrozenKept::kOff) return std::nullopt;
  if (asked == FrozenKept::kFile) {
    std::string folder;
    agree_on(comm, [&] { folder = folder_of(job); });
    try {
      return FrozenStore::in_file(host, folder, key, shape);
    } catch (const AgreedError& error) {
      if (host.rank() == 0) warning(first_line(error));
      return std::nullopt;
    }
  }
  int64_t fits = 0;
  agree_on(comm, [&] {
    if (host.rank() == 0) fits = fits_memory(job, shape.bytes()) ? 1 : 0;
  });
  host.bcast(std::span(&fits, 1), 0);
  if (fits == 0) return std::nullopt;
  return FrozenStore::in_memory(host, shape);
}

std::string size_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  return bytes < 100'000'000 ? fmt::format("{:.1f} MB", 1e-6 * number) : memory_text(number);
}

// Keeps them where the job asks for it; else each rank keeps some. Returns what is said of it.
// Collective.
std::string keep(const Job& job, const std::string& key, Communicator& comm, Communicator& host,
                 FrozenCache& cache) {
  const FrozenStore::Shape shape = cache.shape();
  auto store = store_for(job, key, shape, comm, host);
  if (store) {
    const std::string where = store->path().empty() ? "a host's memory" : store->path();
    cache.keep_in(std::move(*store));
    return fmt::format("once, and kept in {}, {}", where, size_text(shape.bytes()));
  }
  if (job.model.frozen_cache == FrozenKept::kOff) return "again in every batch";
  cache.keep_some(available_memory() / (2 * kMemoryShare * host.size()));
  return fmt::format("again and again, as there is no room for {} (model.frozen-cache{})",
                     size_text(shape.bytes()),
                     job.model.frozen_cache == FrozenKept::kAuto ? " = file" : "-path");
}

// What the model's network can compute apart; null: nothing, or it is no network that is cut.
FrozenPart* frozen_part_of(CuttableNetwork* network, const Job& job, const Assembly& assembly,
                           Communicator& comm) {
  FrozenPart* part = nullptr;
  if (network == nullptr) return part;
  agree_on(comm, [&] {
    const std::vector<float> samples = some_samples(assembly.federation);
    FreezeCase c = freeze_case_of(*assembly.part, job.attack.is_on());
    c.samples = samples;
    part = network->freeze(c);
  });
  return part;
}

// Makes the assembly's cache of that part; `what` names its values of a sample.
void keep_frozen(const Job& job, const std::string& what, FrozenPart& part, Communicator& comm,
                 Assembly& assembly) {
  auto cache = std::make_unique<FrozenCache>(assembly.federation, part);
  std::string key;
  agree_on(comm, [&] { key = key_of(job, assembly.federation, *cache, what); });
  const std::string kept = keep(job, key, comm, *assembly.host, *cache);
  double seconds = 0;
  agree_on(comm, [&] {
    if (comm.rank() == 0) seconds = cache->seconds_of_all();
  });
  assembly.greeting.push_back(fmt::format(
      "what is frozen before the first tensor that moves is {} values a sample, computed {}; all "
      "samples take {} of a rank",
      part.values(), kept, duration_text(seconds)));
  assembly.frozen = std::move(cache);
}

}  // namespace

void take_frozen_part(const Job& job, const Engine& engine, Communicator& comm,
                      Assembly& assembly) {
  const bool is_asked = !job.client.train.empty() || job.client.lora.is_any();
  if (assembly.part == nullptr || !is_asked || job.simulate.is_on()) return;
  if (assembly.federation.samples() == 0) return;
  auto* const network = dynamic_cast<CuttableNetwork*>(&assembly.part->network());
  std::string reason = why_not(job);
  const FrozenPart* found = nullptr;
  FrozenPart* part = nullptr;
  if (reason.empty()) {
    found = part = frozen_part_of(network, job, assembly, comm);
    if (part == nullptr) reason = "nothing is frozen before the first tensor that moves";
  }
  if (part != nullptr && engine.on_gpu()) {
    assembly.frozen_part = move_frozen_part(job, engine, *found, comm, assembly);
    part = assembly.frozen_part.get();
    if (part == nullptr) reason = "GPUs compute what is frozen of this network in every pass";
  }
  const FrozenKept asked = job.model.frozen_cache;
  if (part != nullptr && asked == FrozenKept::kOff && !part->mixes_bits()) return;
  if (!reason.empty()) {
    if (asked == FrozenKept::kAuto) return;
    return assembly.greeting.push_back(fmt::format("{}: {}", kKey, reason));
  }
  keep_frozen(job, found->digest() + engine.trains_on(), *part, comm, assembly);
  network->take_frozen(*assembly.frozen, *found);
}

}  // namespace hanse
