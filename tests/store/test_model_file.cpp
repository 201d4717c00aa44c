// Model files, and what inspect says about files.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/data/feature_record.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/seal.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/inspect.hpp"
#include "hanse/store/model_file.hpp"
#include "store/checkpoint_fixture.hpp"
#include "store/file_size_limit.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

ParameterLayout example_layout() {
  ParameterLayout layout;
  layout.add("conv.weight", {2, 3, 5}, 15);
  layout.add("conv.bias", {2}, 15);
  layout.add("scale", {}, 1);
  return layout;
}

std::vector<float> example_row() {
  std::vector<float> row(33);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i) + 0.25F;
  return row;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The message of the InvalidArgument that `work` must throw.
template <class Work>
std::string refusal(Work&& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_FALSE(contains(message, "\n")) << message;
    return message;
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

std::vector<float> row_of(const std::string& path) {
  const hdf5::Section section;
  return hdf5::File::open_to_read(path).dataset("/row").values<float>();
}

// A linear model of an age and a category, of so many classes.
std::string inspected(int64_t classes, FeatureRecord record, const std::vector<float>& row) {
  record.shape = {2};
  record.labels = classes;
  record.class_names = {"low", "mid", "high"};
  record.class_names.resize(static_cast<std::size_t>(classes));
  record.values = {{.column = "age"}, {ValueOf::kLevel, "kind", "b"}};
  ParameterLayout layout;
  const auto outputs = static_cast<int64_t>(row.size()) / 3;
  layout.add("fc1.weight", {outputs, 2}, 2);
  layout.add("fc1.bias", {outputs}, 2);
  const ScratchFolder folder;
  write_model(folder / "model.h5", layout, row, features_text(record));
  const std::string text = inspect_file(folder / "model.h5");
  return text.substr(std::min(text.size(), text.find("coefficients")));
}

// Odds ratios of a deviation are exp(b), of a unit exp(b / deviation).
TEST(ModelFile, InspectNamesTheCoefficientsOfALinearModel) {
  FeatureRecord record;
  record.preparations[0].scales = {{0, 50, 10}, {0, 0.25, 0.5}};
  EXPECT_EQ(inspected(2, record, {1, -2, 0.5}),
            "coefficients: logarithms of odds, and odds ratios\n"
            "  mid against low\n"
            "    input       coefficient      per unit  per deviation\n"
            "    age                   1       1.10517        2.71828\n"
            "    kind=b               -2     0.0183156       0.135335\n"
            "    intercept           0.5\n");
  const std::string three = inspected(3, record, {1, -2, 2, 0, 1, 1, 0.5, 0.25, 0});
  EXPECT_TRUE(contains(three, "; each class against the first\n")) << three;
  EXPECT_TRUE(contains(three, "  mid against low\n")) << three;
  EXPECT_TRUE(contains(three, "kind=b                3       403.429        20.0855\n")) << three;
  EXPECT_TRUE(contains(three, "  high against low\n")) << three;
  record.preparations = {{.client = "a", .scales = {{}, {}}}, {.client = "b", .scales = {{}, {}}}};
  const std::string own = inspected(2, record, {1, -2, 0.5});
  EXPECT_TRUE(contains(own, "each client has a deviation of its own")) << own;
  EXPECT_FALSE(contains(own, "per unit")) << own;
  record.preparations = {{}};
  const std::string slopes = inspected(0, record, {1, -2, 0.5});
  EXPECT_TRUE(contains(slopes, "slopes")) << slopes;
  EXPECT_TRUE(contains(slopes, "age                   1             1\n")) << slopes;
}

// An attribute of a file has no room for more.
TEST(ModelFile, LongFeaturesAreLeftOut) {
  const ScratchFolder folder;
  const std::string text(kLongestFeatures + 1, 'x');
  write_model(folder / "model.h5", example_layout(), example_row(), text);
  EXPECT_EQ(row_of(folder / "model.h5"), example_row());
  const hdf5::Section section;
  EXPECT_FALSE(hdf5::File::open_to_read(folder / "model.h5").has_attribute("features"));
}

TEST(ModelFile, FeaturesOfTheMostBytesAreKept) {
  const ScratchFolder folder;
  const std::string text(kLongestFeatures, 'x');
  write_model(folder / "model.h5", example_layout(), example_row(), text);
  const hdf5::Section section;
  EXPECT_EQ(hdf5::File::open_to_read(folder / "model.h5").read_text_attribute("features"), text);
}

TEST(ModelFile, HoldsEveryTensorAndTheRow) {
  const ScratchFolder folder;
  const std::string path = folder / "model.h5";
  const ParameterLayout layout = example_layout();
  write_model(path, layout, example_row());
  EXPECT_EQ(row_of(path), example_row());
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  for (const auto& slot : layout.slots()) {
    const hdf5::Dataset dataset = file.dataset("/" + slot.name);
    EXPECT_EQ(dataset.shape(), slot.shape) << slot.name;
    std::vector<float> values(static_cast<std::size_t>(slot.size));
    dataset.read(values.data());
    EXPECT_EQ(values.front(), static_cast<float>(slot.offset) + 0.25F) << slot.name;
    EXPECT_EQ(values.back(), static_cast<float>(slot.offset + slot.size - 1) + 0.25F);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"model.h5"});
}

TEST(ModelFile, AFullDiskLeavesTheOldFile) {
  const ScratchFolder folder;
  const std::string path = folder / "model.h5";
  write_model(path, example_layout(), example_row());
  {
    const FileSizeLimit full(5000);
    EXPECT_THROW(write_model(path, example_layout(), std::vector<float>(33)), IoError);
  }
  EXPECT_EQ(row_of(path), example_row());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"model.h5"});
}

TEST(Inspect, Checkpoint) {
  const ScratchFolder folder;
  ClientStateStore store(12, 1 << 30, folder.path());
  fill_clients(store, 10, 0, 1);
  write_checkpoint(folder.path(), 42, example_state(42), &store, *make_single_communicator());
  const std::string text = inspect_file(folder / "round-000042.h5");
  for (const std::string part :
       {"round-000042.h5: checkpoint, ", "\nround: 42\n", "\ndigest: ok\n",
        "\nserver state: 11 arrays\n", "model               float32  [100003]\n",
        "aggregator/regret   float64  [1]           0.1\n", "sampler/none        int64    [0]\n",
        "long-text           text     100001 bytes\n",
        "round               int64    [1]           42",
        "\nclients: 9 with state, 12 float32 each\n"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\nis not in\n" << text;
  }
}

TEST(Inspect, DamagedCheckpoint) {
  const ScratchFolder folder;
  const std::string path = folder / "round-000042.h5";
  write_checkpoint(folder.path(), 42, example_state(42), nullptr, *make_single_communicator());
  EXPECT_TRUE(contains(inspect_file(path), "\nclients: no states\n"));
  std::fstream(path) << "HANSE-CHECKPOINT 9";
  const std::string text = inspect_file(path);
  EXPECT_TRUE(contains(text, "round: 42 (by its name)\ndigest: DAMAGED, format version")) << text;
}

// By a seal that is right.
TEST(Inspect, CheckpointOfAnotherProgram) {
  const ScratchFolder folder;
  const std::string path = folder / "round-000042.h5";
  {
    const hdf5::Section section;
    hdf5::File file = hdf5::File::create(path, kSealBytes);
    file.write_attribute("round", 42);
    file.write("/clients/rows", std::vector<float>{1, 2, 3});
    file.close();
  }
  const std::string seal = seal_of(path, kCheckpointSeal);
  std::fstream(path) << seal;
  EXPECT_TRUE(contains(refusal([&] { inspect_file(path); }), "/clients/rows is no matrix"));
}

TEST(Inspect, ListsTheTensorsOfAModel) {
  const ScratchFolder folder;
  write_model(folder / "model.h5", example_layout(), example_row());
  const std::string text = inspect_file(folder / "model.h5");
  for (const std::string part :
       {"model.h5: model, ", "\nparameters: 33\n", "\ntensors: 3\n",
        "conv.weight  float32  [2, 3, 5]\n", "conv.bias    float32  [2]           30.25 31.25\n",
        "scale        float32  []            32.25\n"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\nis not in\n" << text;
  }
}

TEST(Inspect, AnyOtherHdf5File) {
  const ScratchFolder folder;
  {
    const hdf5::Section section;
    hdf5::File file = hdf5::File::create(folder / "data.h5");
    file.create_dataset("/a/b", hdf5::kTypeOf<double>, {3, 0}).close();
    file.write("/c", std::string());
    file.close();
  }
  const std::string text = inspect_file(folder / "data.h5");
  EXPECT_TRUE(contains(text, "data.h5: HDF5 file, ")) << text;
  EXPECT_TRUE(contains(text, "datasets: 2\n  a/b  float64  [3, 0]\n  c    text     0 bytes  "))
      << text;
}

TEST(Inspect, OtherFilesAreRefusedByName) {
  const ScratchFolder folder;
  std::ofstream(folder / "notes.txt") << "words";
  EXPECT_TRUE(contains(refusal([&] { inspect_file(folder / "notes.txt"); }), "notes.txt"));
  EXPECT_TRUE(contains(refusal([&] { inspect_file(folder / "none.h5"); }), "No such file"));
  EXPECT_TRUE(contains(refusal([&] { inspect_file(folder.path()); }), folder.path()));
  std::ofstream(folder / "empty.h5").close();
  refusal([&] { inspect_file(folder / "empty.h5"); });
}

}  // namespace
}  // namespace hanse
