#include "fuzz/seeds.hpp"

#include <filesystem>

#include <png.h>
#include <turbojpeg.h>

#include "fuzz/readers.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/feature_record.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/model_file.hpp"
#include "support/graph_file.hpp"
#include "support/weight_file.hpp"
#include "support/zip_file.hpp"

namespace hanse {

namespace {

const std::string kSources = HANSE_SOURCES;

std::string png_of(const std::string& pixels, uint32_t format) {
  png_image image{.version = PNG_IMAGE_VERSION, .width = 3, .height = 2, .format = format};
  std::string file(1000, '\0');
  png_alloc_size_t size = file.size();
  png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr);
  return file.substr(0, size);
}

std::string jpeg_of(const std::string& pixels, int format, int sampling, int flags) {
  const tjhandle handle = tjInitCompress();
  unsigned char* file = nullptr;
  unsigned long size = 0;
  tjCompress2(handle, reinterpret_cast<const unsigned char*>(pixels.data()), 3, 0, 2, format, &file,
              &size, sampling, 80, flags);
  const std::string bytes(reinterpret_cast<const char*>(file), size);
  tjFree(file);
  tjDestroy(handle);
  return bytes;
}

// What the program has written there, which goes.
std::string taken(const std::string& path) {
  const std::string bytes = bytes_of(path);
  std::filesystem::remove(path);
  return bytes;
}

}  // namespace

Seeds idx_seeds(const std::string&) {
  const std::string train = kSources + "/data/tiny-idx/train-";
  return {idx_input(bytes_of(train + "images-idx3-ubyte"), bytes_of(train + "labels-idx1-ubyte"))};
}

Seeds picture_seeds(const std::string&) {
  const std::string pixels = "ABCDEFGHIJKLMNOPQRSTUVWX";
  return {png_of(pixels, PNG_FORMAT_RGB),
          png_of(pixels, PNG_FORMAT_GRAY),
          png_of(pixels, PNG_FORMAT_RGBA),
          png_of(pixels, PNG_FORMAT_GA),
          jpeg_of(pixels, TJPF_RGB, TJSAMP_420, 0),
          jpeg_of(pixels, TJPF_GRAY, TJSAMP_GRAY, 0),
          jpeg_of(pixels, TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE)};
}

Seeds cifar_seeds(const std::string&) {
  return {std::string(3074, '\3'), std::string(2 * 3074, '\7')};
}

Seeds npz_seeds(const std::string&) {
  const std::string x = npy("<f4", "2, 3", std::string(24, '\1'));
  const std::string labels = npy("<i8", "2,", number_bytes(1, 8) + number_bytes(0, 8));
  const std::string texts = npy("<U1", "2,", number_bytes('b', 4) + number_bytes(0xE9, 4));
  return {zip_of({{"x.npy", x}, {"y.npy", labels}, {"client.npy", texts}}, false),
          zip_of({{"x.npy", npy("|u1", "2, 1, 2, 3", std::string(12, 'x'))},
                  {"y.npy", npy("|S2", "2, 1", std::string("a\0bc", 4))}},
                 true),
          zip_of({{"x.npy", npy("|u1", "2, 3", std::string("\0\1\2\2\1\0", 6))},
                  {"y.npy", npy("|i1", "2, 3", std::string("\1\2\377\1\0\1", 6))}},
                 false),
          zip_of({{"x.npy", x}, {"y.npy", npy("|u1", "2, 2", std::string("\0\1\1\0", 4))}}, false)};
}

Seeds csv_seeds(const std::string&) {
  return {bytes_of(kSources + "/data/tiny.csv"),
          "label,client,x\nyes,a,1\nno,b,\"2\"\nyes,\"a\"\"c\",-3e-2\nno,a,4\n",
          "client,x,s,y,label\na,1,r,,0\nb,?,g,7,1\na,true,?,2,3\nb,3,unknown,1,2\n",
          "\xEF\xBB\xBFx,label\r\n1,0\r\n2,1\r\n\r\n"};
}

Seeds leaf_seeds(const std::string&) {
  return {R"({"users": ["u", "v"], "num_samples": [2, 1], "user_data": {
              "u": {"x": [[0, 0.5, 1, 2], [1, 1, 1, 1]], "y": [0, 3]},
              "v": {"x": [[2, 2, 2, 2]], "y": [1]}}})",
          R"({"users": ["u"], "num_samples": [2], "user_data": {
              "u": {"x": ["ab", "b\u00e9"], "y": ["c", "a"]}}})",
          R"({"users": ["u"], "num_samples": [2], "user_data": {"u": [[1, 2], [3, 4]]},
              "user_data_label": {"u": [0, 1]}})"};
}

Seeds tff_seeds(const std::string& folder) {
  const std::string images = folder + "/images", texts = folder + "/texts";
  const std::string posts = folder + "/posts";
  const hdf5::Section section;
  hdf5::File file = hdf5::File::create(images, 0);
  for (const std::string client : {"/examples/a", "/examples/b"}) {
    const std::vector<float> pixels(16, 0.5F);
    file.write(client + "/pixels", {2, 2, 2, 2}, pixels.data());
    file.write(client + "/label", std::vector<int32_t>{1, 0});
  }
  file.close();
  file = hdf5::File::create(texts, 0);
  file.write("/examples/a/snippets", std::vector<std::string>{"to be or not", "to be"});
  file.write("/examples/b/snippets", std::vector<std::string>{"that is the question"});
  file.close();
  file = hdf5::File::create(posts, 0);
  for (const std::string client : {"/examples/a", "/examples/b"}) {
    file.write(client + "/title", std::vector<std::string>{"to be", "or not"});
    file.write(client + "/tokens", std::vector<std::string>{"that is", "the question"});
    file.write(client + "/tags", std::vector<std::string>{"b|c++", "c++"});
  }
  file.close();
  return {taken(images), taken(texts), taken(posts)};
}

Seeds text_seeds(const std::string&) {
  return {"ROMEO:\nBut soft,\nwhat light\n\nJULIET:\nAy me!\n\nROMEO:\nShe speaks.\n",
          "A\xC3\x89:\r\n  caf\xC3\xA9\r\n\r\ncalled on\r\n"};
}

Seeds hanse_seeds(const std::string& folder) {
  const std::string path = folder + "/data.h5";
  Seeds seeds;
  for (const DataOptions& data :
       {DataOptions{.kind = "random", .shape = {1, 2, 2}, .classes = 3},
        DataOptions{.kind = "random", .validation_fraction = 1, .shape = {2}, .classes = 0},
        DataOptions{.kind = "csv", .path = kSources + "/data/tiny.csv", .client_column = "site"}}) {
    write_hanse_file(path, data, {.clients = 2, .samples = 3}, 1);
    seeds.push_back(taken(path));
    seeds.push_back(std::string(512, '\0') + seeds.back().substr(512));  // as Python writes it
  }
  return seeds;
}

Seeds feature_seeds(const std::string&) {
  const FeatureRecord record{
      .shape = {3},
      .values = {{.column = "x"}, {ValueOf::kLevel, "c", "a, b"}, {ValueOf::kMissing, "c"}},
      .foreign = {{"c", "d"}},
      .preparations = {{.fills = {1.5, 0, 1}, .scales = {{}, {0, 2, 3}, {}}}},
      .labels = 2,
      .class_names = {"no", "yes"},
      .label_columns = {"ill"}};
  FeatureRecord own = record;
  own.preparations = {{.client = "n"}, {.client = "s"}};
  return {features_text(record), features_text(own)};
}

Seeds checkpoint_seeds(const std::string& folder) {
  State state;
  state.put("round", int64_t{7});
  state.put("rule/n", std::vector<double>{1.5, -2});
  state.put("model", std::vector<float>{1, 2, 3});
  state.put_text("job", "[run]\n");
  ClientStateStore clients(kSeedWidth, 1 << 20, folder);
  for (const int64_t client : {3, 8}) clients.row(client)[0] = 0.5F;
  write_checkpoint(folder, 7, state, &clients, *make_single_communicator());
  return {taken(checkpoint_path(folder, 7))};
}

Seeds model_seeds(const std::string& folder) {
  ParameterLayout layout;
  layout.add("fc.weight", {2, 3}, 3);
  layout.add("fc.bias", {2}, 3);
  write_model(folder + "/model.h5", layout, std::vector<float>(8, 0.25F));
  Seeds seeds = {taken(folder + "/model.h5")};
  write_model(folder + "/model.h5", layout, std::vector<float>(8, 0.25F), feature_seeds("")[0]);
  seeds.push_back(taken(folder + "/model.h5"));
  return seeds;
}

Seeds torchscript_seeds(const std::string&) {
  const std::vector<ZipEntry> entries = {{"net/data.pkl", "pickle"}, {"net/code/net.py", "pass"}};
  return {zip_of(entries, false), zip_of(entries, true)};
}

Seeds weights_seeds(const std::string&) {
  const std::string values(64, '\1');
  return {torch_file(pickled({{"a", pickled(PickledTensor{})}}), {values}),
          safetensors_file(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                           R"("b":{"dtype":"BF16","shape":[],"data_offsets":[16,18]}})",
                           values.substr(0, 18)),
          R"({"weight_map": {"a": "input", "b": "other"}})"};
}

Seeds adapter_seeds(const std::string&) {
  const std::string config =
      R"({"peft_type":"LORA","r":1,"lora_alpha":2,"bias":"none","rank_pattern":{}})";
  const std::string tensors = safetensors_file(
      R"({"base_model.model.a.lora_A.weight":)"
      R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("base_model.model.a.lora_B.weight":)"
      R"({"dtype":"F32","shape":[3,1],"data_offsets":[8,20]},)"
      R"("b.lora_embedding_A":{"dtype":"F16","shape":[1,2],"data_offsets":[20,24]},)"
      R"("b.lora_embedding_B":{"dtype":"F16","shape":[1,1],"data_offsets":[24,26]}})",
      std::string(26, '\1'));
  const auto size = static_cast<char>(config.size());
  return {std::string("\0", 1) + size + config + tensors};
}

// Without the protocol's two bytes and the last one.
Seeds pickle_seeds(const std::string&) {
  const std::string half = pickled(PickledTensor{.key = "1", .storage = "HalfStorage"});
  return {pickled({{"a", pickled(PickledTensor{})}, {"b", pickled_parameter(half)}}),
          pickled({{"epoch", "K\3"}, {"model", pickled({{"a", half}, {"b", half}})}}, false),
          "(]q\1(h\1K\1\x8a\2\1\1ee0}\x94(NNu\x8c\1a\x8c\1b\x93)\x81}b"};
}

// Whole files, and notes alone.
Seeds graph_seeds(const std::string&) {
  return {linear_graph().file(),  norm_graph().file(), linear_graph().note(),
          dropout_graph().note(), norm_graph().note(), picture_graph().note()};
}

Seeds job_seeds(const std::string&) {
  Seeds seeds = {job_text(KeyedJob(catalog()))};
  for (const auto& entry : std::filesystem::directory_iterator(kSources + "/jobs")) {
    if (entry.path().extension() == ".cfg") seeds.push_back(bytes_of(entry.path()));
  }
  return seeds;
}

// The manual's examples, and more.
Seeds replay_seeds(const std::string&) {
  const std::string manual = bytes_of(kSources + "/jobs/replay.md");
  Seeds seeds = {
      R"({"rule": {"bandit.kind": "fed-go-ucb"}, "clients": 2, "horizon": 2,
          "features": [[1, 0], [0, 1]], "base": [0, 0], "values": [1, 0.5],
          "noise": [0.1, -0.1, 0, 0]})",
      R"({"rule": {"aggregator.kind": "fedmgda+"}, "rounds": [{"gram": [[1, 0.5], [0.5, 2]]}]})",
      R"({"rule": {"aggregator.kind": "fedlf"}, "rounds": [{"losses": [1, 2],
          "gram": [[[1, 0], [0, 1]], [[2, 1], [1, 2]]]}]})",
      R"({"rule": {"aggregator.kind": "aaggff-d", "participation": 0.5}, "clients": 3,
          "samples": 9, "rounds": [{"participants": [0, 2], "losses": [0.5, 2]}]})",
      R"({"rule": {"client.rate": "lbfgs", "client.lr": 0.1}, "gradient": [1, 2],
          "pairs": [[[1, 0], [2, 0]], [[0, 1], [0, 3]]]})"};
  for (std::size_t at = 0; (at = manual.find("\n{\"rule\"", at)) != std::string::npos; ++at) {
    seeds.push_back(manual.substr(at + 1, manual.find("\n```", at) - at));
  }
  return seeds;
}

Seeds availability_seeds(const std::string&) {
  return {"client,first,last\n0,1,3\n5,2,2\n\n# all\n0,4,9223372036854775807\n"};
}

Seeds arms_seeds(const std::string&) { return {"a,b,value\n0.1,0.2,1\n-1,2,0.5\n\"3\",0,2\n"}; }

}  // namespace hanse
