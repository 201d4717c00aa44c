// Headers and texts that promise more than there is, and seals.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/kinds.hpp"
#include "support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

Federation load(const std::string& kind, const std::string& path) {
  const auto host = make_single_communicator();
  return Federation::load({.kind = kind, .path = path}, {}, 1, *host);
}

Federation read_leaf(const std::string& text) {
  const TempFolder folder;
  folder.write("all.json", text);
  return load("leaf", folder.path());
}

std::string leaf(const std::string& counts, const std::string& features) {
  return R"({"users": ["u"], "num_samples": [)" + counts + R"(], "user_data": {"u": {"x": [)" +
         features + R"(], "y": [0, 1]}}})";
}

TEST(Paths, TheSystemRefusesLongNames) {
  const std::string path(5000, 'a');
  expect_error<InvalidArgument>([&] { check_data({.kind = "csv", .path = path}, {.clients = 2}); },
                                {"no such file or folder", "aaaa"});
}

// The parser keeps no stack.
TEST(LeafLimits, DepthIsNoDanger) {
  std::string deep(1'000'000, '[');
  deep.append("1").append(1'000'000, ']');
  EXPECT_NO_THROW({
    const Federation federation = read_leaf(leaf("2", deep + ", [2]"));
    EXPECT_EQ(federation.samples(), 2);
    EXPECT_EQ(federation.sample_values(), 1);
  });
}

TEST(LeafLimits, NumbersOfSamples) {
  read_leaf(leaf("2", "1, 2"));
  expect_error<AgreedError>([] { read_leaf(leaf("1e300", "1, 2")); },
                            {"1e+300 is no number of samples"});
  expect_error<AgreedError>([] { read_leaf(leaf("-1", "1, 2")); }, {"-1 is no number of samples"});
}

// A table of their classes would fill the memory.
TEST(Labels, ClassesHaveALimit) {
  const std::string data = R"({"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": [1], )";
  expect_error<AgreedError>([&] { read_leaf(data + R"("y": [16777216]}}})"); },
                            {"the label 16777216 is no class"});
  read_leaf(data + R"("y": [16777215]}}})");
  const TempFolder folder;
  const std::string path = folder.file("data.h5");
  {
    const hdf5::Section section;
    auto file = hdf5::File::create(path);
    file.write("/examples/u/pixels", std::vector<float>{1});
    file.write("/examples/u/label", std::vector<int32_t>{2147483646});
    file.close();
  }
  expect_error<AgreedError>([&] { load("tff", path); }, {"the label 2147483646 is no class"});
}

// A file of Hanse's, as bytes.
class HanseFileLimits : public testing::Test {
 protected:
  static constexpr int64_t kSamples = 24, kSampleBytes = 16;

  void SetUp() override {
    const DataOptions data{.kind = "random", .shape = {1, 4, 4}, .classes = 3};
    write_hanse_file(path_, data, {.clients = 3, .samples = 8}, 1);
    std::ifstream in(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    const hdf5::Section section;
    const auto file = hdf5::File::open_to_read(path_);
    features_ = file.dataset("features").offset();
    labels_ = file.dataset("labels").offset();
  }

  void write(const std::string& bytes) const { folder_.write("data.h5", bytes); }
  void expect_refused(std::initializer_list<std::string> parts) const {
    expect_parts(message_of<AgreedError>([&] { load("hanse", path_); }), parts);
  }
  // As Python writes it.
  std::string unsealed() const {
    std::string bytes = bytes_;
    std::fill_n(bytes.begin(), 512, '\0');
    return bytes;
  }

  const TempFolder folder_;
  const std::string path_ = folder_.file("data.h5");
  std::string bytes_;
  int64_t features_ = 0, labels_ = 0;  // where they stand
};

TEST_F(HanseFileLimits, EveryByteOutsideTheSamplesIsSealed) {
  const auto is_sample = [&](int64_t at) {
    return (at >= features_ && at < features_ + kSamples * kSampleBytes) ||
           (at >= labels_ && at < labels_ + kSamples * 4);
  };
  for (int64_t at = 11; at < std::ssize(bytes_); at += 7) {
    if (is_sample(at)) continue;
    std::string damaged = bytes_;
    damaged[static_cast<std::size_t>(at)] ^= 4;
    write(damaged);
    expect_refused({path_});
  }
  write(bytes_.substr(0, bytes_.size() - 1));
  expect_refused({"bytes long, must be"});
}

TEST_F(HanseFileLimits, AFileWithoutASealIsRead) {
  const uint64_t digest = load("hanse", path_).digest();
  write(unsealed());
  EXPECT_EQ(load("hanse", path_).digest(), digest);
}

TEST_F(HanseFileLimits, TheDigestIsOneNumber) {
  std::string bytes = unsealed();
  const std::string one_value("\1\1\1\0\0\0\0\0\1\0\0\0\0\0\0\0\1", 17);  // of [1]
  const std::size_t at = bytes.find(one_value);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 8] = bytes[at + 16] = 0;
  write(bytes);
  expect_refused({"the digest is not one number", path_});
}

TEST_F(HanseFileLimits, SamplesCannotStandBehindTheEnd) {
  std::string bytes = unsealed();
  const auto as_bytes = [](int64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const std::size_t at = bytes.find(as_bytes(labels_ - 512));  // HDF5 counts behind the seal
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, sizeof(int64_t), as_bytes(std::ssize(bytes) - 512 - 4));
  write(bytes);
  expect_refused({"promises 24 elements", "holds 4 bytes"});
}

}  // namespace
}  // namespace hanse
