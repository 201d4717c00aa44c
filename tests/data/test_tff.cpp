// Files of TensorFlow Federated.
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/clients/tff_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/partition.hpp"
#include "sources.hpp"
#include "support.hpp"

namespace hanse {
namespace {

// Client b has one sample of 1 x 2 pixels in three channels, client a two.
class TffTest : public testing::Test {
 protected:
  TffTest() {
    std::vector<float> pixels(12);
    std::iota(pixels.begin(), pixels.end(), 0.0F);
    put({{"b", {1, 1, 2, 3}, {1}}, {"a", {2, 1, 2, 3}, {4, 0}}}, pixels);
  }
  struct Client {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<int32_t> labels;
  };
  void put(const std::vector<Client>& clients, const std::vector<float>& pixels) {
    const hdf5::Section section;
    hdf5::File file = hdf5::File::create(path_);
    for (const Client& client : clients) {
      file.write("/examples/" + client.name + "/pixels", client.shape, pixels.data());
      file.write("/examples/" + client.name + "/label", client.labels);
    }
    file.close();
  }
  std::unique_ptr<ClientSource> source() const {
    return make_tff_source({.kind = "tff", .path = path_, .test_fraction = 0}, 1);
  }
  TempFolder folder_;
  std::string path_ = folder_.file("data.h5");
};

TEST_F(TffTest, ClientsComeByNameAndChannelsFirst) {
  const auto tff = source();
  const Written written(*tff);
  EXPECT_EQ(written.layout.client_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(written.layout.shape, (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(written.layout.classes, 5);
  EXPECT_EQ(written.labels, (std::vector<int32_t>{4, 0, 1}));
  EXPECT_EQ(written.sample(1), (std::vector<float>{6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(written.sample(2), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST_F(TffTest, SamplesThatDoNotFitTheirLabelsAreRefused) {
  const std::vector<float> pixels(12);
  const auto expect_bad = [&](const std::vector<Client>& clients, const std::string& what) {
    put(clients, pixels);
    const auto bad = source();
    expect_invalid([&] { const Written written(*bad); }, {what, "data.h5"});
  };
  expect_bad({{"a", {2, 1, 2, 3}, {0, 1, 1}}}, "2 samples but 3 labels");
  expect_bad({{"a", {1, 1, 2, 3}, {0}}, {"b", {1, 2, 1, 3}, {0}}}, "another shape");
  expect_invalid(
      [&] { make_tff_source({.kind = "tff", .path = folder_.write("text", "none")}, 1); },
      {"text"});
}

}  // namespace
}  // namespace hanse
