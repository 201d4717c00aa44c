#include "fuzz/readers.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "fuzz/seeds.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/zip_directory.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/data/new_samples.hpp"
#include "hanse/data/seal.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/model/peft.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/execute.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/inspect.hpp"
#include "hanse/store/weights.hpp"
#include "model/graphs/graph_file.hpp"
#include "support/graph_file.hpp"
#include "support/weight_file.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

// The ranks' agreement makes one type of all that is thrown: what is no Error has no status 2.
void agreed(const std::function<void(Communicator&)>& work) {
  const auto comm = make_single_communicator();
  try {
    work(*comm);
  } catch (const AgreedError& error) {
    const std::string what = error.what();
    const bool too_large = what.find("GB of memory, and there are") != std::string::npos;
    if (error.exit_status() != ExitStatus::kBadInput && !too_large) throw;
  }
}

void load(const DataOptions& data, const FederationOptions& federation = {.clients = 2}) {
  agreed([&](Communicator& comm) { Federation::load(data, federation, 1, comm); });
}

// Goes on after an Error.
void answered(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error&) {
  }
}

std::string file_of(const std::string& input, const std::string& folder) {
  const std::string path = folder + "/input";
  write_bytes(path, input);
  return path;
}

// Reads the file as it stands, and once more under a seal that is right.
void read_sealed(const std::string& input, const std::string& folder, const SealKind& kind,
                 void (*read)(const std::string& path)) {
  const std::string path = file_of(input, folder);
  read(path);
  if (std::ssize(input) < kSealBytes) return;
  write_bytes(path, seal_of(path, kind) + input.substr(kSealBytes));
  read(path);
}

void read_idx(const std::string& input, const std::string& folder) {
  if (input.size() < 2) return;
  const std::size_t images = static_cast<uint8_t>(input[0]) * 256U + static_cast<uint8_t>(input[1]);
  write_bytes(folder + "/train-images-idx3-ubyte", input.substr(2, images));
  write_bytes(folder + "/train-labels-idx1-ubyte",
              input.substr(std::min(2 + images, input.size())));
  load({.kind = "idx", .path = folder});
}

void read_pictures(const std::string& input, const std::string& folder) {
  fs::create_directory(folder + "/a");
  write_bytes(folder + "/a/input.png", input);
  load({.kind = "images", .path = folder, .shape = {}}, {.clients = 1});
  load({.kind = "images", .path = folder, .shape = {3, 2, 5}}, {.clients = 1});
}

void read_cifar_files(const std::string& input, const std::string& folder) {
  write_bytes(folder + "/train.bin", input);
  load({.kind = "cifar", .path = folder});
}

void read_arrays(const std::string& input, const std::string& folder) {
  const std::string path = file_of(input, folder);
  load({.kind = "npz", .path = path});
  load({.kind = "npz", .path = path, .task = "regression"});
  load({.kind = "npz", .path = path, .task = "sequence"});
}

void read_csv_file(const std::string& input, const std::string& folder) {
  const std::string path = file_of(input, folder);
  load({.kind = "csv", .path = path});
  load({.kind = "csv",
        .path = path,
        .label_column = "",
        .task = "regression",
        .standardize = Standardize::kClient});
  load({.kind = "csv", .path = path, .client_column = "client"});
  for (const MissingValues missing : all_of<MissingValues>()) {
    load({.kind = "csv",
          .path = path,
          .client_column = "client",
          .standardize = missing == MissingValues::kMean ? Standardize::kAll : Standardize::kClient,
          .missing = missing,
          .categories = Categories::kOneHot},
         {.held_out = HeldOut::parse("b")});
    load({.kind = "csv",
          .path = path,
          .missing = missing,
          .category_columns = "x",
          .drop_columns = "y",
          .label_above = 1});
  }
}

// As rows for a model that reads the columns of a seed.
void read_new_rows(const std::string& input, const std::string& folder) {
  const FeatureRecord record{
      .shape = {3},
      .values = {{.column = "x"}, {ValueOf::kLevel, "y", "2"}, {ValueOf::kMissing, "y"}}};
  const Preparation own{.fills = {1, 0, 1}, .scales = {{}, {0, 1, 2}, {}}};
  const auto samples = open_new_samples({.kind = "csv", .path = file_of(input, folder)}, record,
                                        own, UnknownLevels::kMissing);
  std::vector<float> values(3);
  std::vector<std::string> texts;
  while (samples->next(values, texts)) {
  }
}

void read_leaf(const std::string& input, const std::string& folder) {
  fs::create_directory(folder + "/train");
  write_bytes(folder + "/train/all.json", input);
  load({.kind = "leaf", .path = folder, .shape = {1, 2, 2}, .vocabulary = Characters::kData});
}

void read_tff(const std::string& input, const std::string& folder) {
  const std::string path = file_of(input, folder);
  load({.kind = "tff", .path = path, .window = 4});
  load({.kind = "tff", .path = path, .window = 4, .targets = TextTargets::kEvery});
  load({.kind = "tff", .path = path, .label_column = "tags"});
}

void read_text(const std::string& input, const std::string& folder) {
  const std::string path = file_of(input, folder);
  load({.kind = "text", .path = path, .vocabulary = Characters::kData, .window = 4});
  load({.kind = "text",
        .path = path,
        .vocabulary = Characters::kData,
        .window = 4,
        .targets = TextTargets::kEvery});
}

void read_hanse(const std::string& path) {
  answered([&] { inspect_file(path, true); });
  load({.kind = "hanse", .path = path});
}

void read_checkpoint(const std::string& path) {
  answered([&] { inspect_file(path, false); });
  answered([&] { read_checkpoint_state(path); });
  ClientStateStore clients(kSeedWidth, 1 << 20, fs::path(path).parent_path());
  answered([&] {
    read_checkpoint_clients(
        path, [](int64_t) { return true; }, clients);
  });
}

// One for all inputs, since its table is made slower than a file is read.
KeyedJob& untouched_job() {
  static KeyedJob job(catalog());
  static const OptionTable table = job.table;
  static_cast<Job&>(job) = {};
  job.table = table;
  return job;
}

void read_job_file(const std::string& input, const std::string& folder) {
  KeyedJob& job = untouched_job();
  load_job(file_of(input, folder), {}, job);
  job_text(job);
  unused_keys(job);
  check_job(job);
}

// The length of the configuration in two bytes, it, and the tensors.
void read_adapters(const std::string& input, const std::string& folder) {
  if (input.size() < 2) return;
  const std::size_t config = static_cast<uint8_t>(input[0]) * 256U + static_cast<uint8_t>(input[1]);
  write_bytes(folder + "/adapter_config.json", input.substr(2, config));
  write_bytes(folder + "/adapter_model.safetensors",
              input.substr(std::min(2 + config, input.size())));
  for (const PeftAdapter& adapter : read_peft(folder).adapters) {
    answered([&] { own_factors(adapter, {adapter.out, adapter.in}, MatrixUse::kDense); });
    answered([&] { own_factors(adapter, {adapter.in, adapter.out}, MatrixUse::kDense); });
  }
}

void read_availability(const std::string& input, const std::string& folder) {
  const Availability who = make_availability(file_of(input, folder), 100);
  for (int64_t round = 1; round <= 5; ++round) who(round, 1);
}

void read_arms(const std::string& input, const std::string& folder) {
  KeyedJob& job = untouched_job();
  load_job(file_of("", folder),
           {{"run.protocol", "bandit"},
            {"bandit.arms", "file"},
            {"federation.clients", "2"},
            {"bandit.path", folder + "/arms"},
            {"bandit.kind", "dis-lin-ucb"}},
           job);
  write_bytes(folder + "/arms", input);
  agreed([&](Communicator& comm) { assemble(job, comm); });
}

}  // namespace

const std::vector<FuzzedReader>& fuzzed_readers() {
  static const std::vector<FuzzedReader> readers = {
      {"idx", read_idx, idx_seeds},
      {"images", read_pictures, picture_seeds},
      {"cifar", read_cifar_files, cifar_seeds},
      {"npz", read_arrays, npz_seeds},
      {"csv", read_csv_file, csv_seeds},
      {"rows", read_new_rows, csv_seeds},
      {"features",
       [](const std::string& input, const std::string&) { read_features(input, "features.csv"); },
       feature_seeds},
      {"leaf", read_leaf, leaf_seeds},
      {"tff", read_tff, tff_seeds},
      {"text", read_text, text_seeds},
      {"hanse",
       [](const std::string& input, const std::string& folder) {
         read_sealed(input, folder, kDataSeal, read_hanse);
       },
       hanse_seeds},
      {"checkpoint",
       [](const std::string& input, const std::string& folder) {
         read_sealed(input, folder, kCheckpointSeal, read_checkpoint);
       },
       checkpoint_seeds},
      {"model",
       [](const std::string& input, const std::string& folder) {
         read_sealed(input, folder, kModelSeal,
                     [](const std::string& path) { answered([&] { inspect_file(path, false); }); });
       },
       model_seeds},
      {"torchscript",
       [](const std::string& input, const std::string& folder) {
         check_archive({file_of(input, folder), "TorchScript", "save it anew"});
       },
       torchscript_seeds},
      {"weights",
       [](const std::string& input, const std::string& folder) {
         read_weights(file_of(input, folder));
       },
       weights_seeds},
      {"adapters", read_adapters, adapter_seeds},
      {"pickle",
       [](const std::string& input, const std::string& folder) {
         const std::string values(64, '\1');
         read_weights(file_of(torch_file(input, {values, values}), folder));
       },
       pickle_seeds},
      {"graph",
       [](const std::string& input, const std::string& folder) {
         answered([&] { read_graph_file(file_of(input, folder)); });
         read_graph_file(file_of(linear_graph().file(input), folder));
       },
       graph_seeds},
      {"job", read_job_file, job_seeds},
      {"replay", [](const std::string& input, const std::string&) { replay(input); }, replay_seeds},
      {"availability", read_availability, availability_seeds},
      {"arms", read_arms, arms_seeds},
  };
  return readers;
}

std::string idx_input(const std::string& images, const std::string& labels) {
  const std::size_t length = images.size();
  return std::string{static_cast<char>(length / 256), static_cast<char>(length % 256)} + images +
         labels;
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace hanse
