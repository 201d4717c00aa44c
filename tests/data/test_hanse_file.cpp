#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "hanse/comm/agreement.hpp"
#include "support/thread_communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/data/hanse_file.hpp"
#include "support.hpp"

namespace hanse {
namespace {

Federation load(const DataOptions& data, const FederationOptions& federation) {
  const auto host = make_single_communicator();
  return Federation::load(data, federation, 3, *host);
}

std::vector<float> values(const Federation& federation, SampleRange range) {
  std::vector<float> out(static_cast<std::size_t>(range.size() * federation.sample_values()));
  federation.copy(range, out.data());
  return out;
}

void expect_same(const Federation& a, const Federation& b) {
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_EQ(a.sample_shape(), b.sample_shape());
  EXPECT_EQ(a.classes(), b.classes());
  EXPECT_EQ(a.train_samples(), b.train_samples());
  ASSERT_EQ(a.clients(), b.clients());
  ASSERT_EQ(a.held_out(), b.held_out());
  for (int64_t c = 0; c < a.clients() + a.held_out(); ++c) {
    EXPECT_EQ(values(a, a.train(c)), values(b, b.train(c))) << c;
    EXPECT_EQ(values(a, a.test(c)), values(b, b.test(c))) << c;
  }
  EXPECT_TRUE(std::ranges::equal(a.labels(), b.labels()));
  EXPECT_TRUE(std::ranges::equal(a.targets(), b.targets()));
}

TEST(HanseFile, HoldsWhatItWasMadeOf) {
  const FederationOptions uneven{.clients = 7, .partition = "power-law", .samples = 13};
  const DataOptions sources[] = {
      {.kind = "random", .shape = {3, 5}, .classes = 4},
      {.kind = "random", .test_fraction = 0, .shape = {7}, .classes = 0},
      {.kind = "csv", .path = HANSE_DATA_FOLDER "/tiny.csv", .client_column = "site"},
  };
  for (const DataOptions& source : sources) {
    const TempFolder folder;
    const std::string file = folder.file("data.h5");
    const FederationOptions federation = source.kind == "csv" ? FederationOptions{} : uneven;
    const auto sizes = write_hanse_file(file, source, federation, 3);
    const Federation mapped = load({.kind = "hanse", .path = file}, {});
    expect_same(load(source, federation), mapped);
    EXPECT_EQ(sizes.samples, mapped.samples());
    EXPECT_EQ(sizes.clients, mapped.clients());
    EXPECT_EQ(static_cast<uintmax_t>(sizes.bytes), std::filesystem::file_size(file));
  }
}

TEST(HanseFile, EveryRankReadsTheSamplesInPlace) {
  const TempFolder folder;
  const std::string file = folder.file("data.h5");
  write_hanse_file(file, {.kind = "random", .shape = {9}, .classes = 3}, {.clients = 5}, 1);
  std::mutex mutex;
  std::set<uint64_t> digests;
  run_threads(3, [&](Communicator& comm) {
    const auto federation =
        Federation::load({.kind = "hanse", .path = file}, {.held_out = 2}, 1, comm);
    EXPECT_EQ(federation.clients(), 3);
    EXPECT_EQ(federation.held_out(), 2);
    const std::lock_guard lock(mutex);
    digests.insert(federation.digest());
  });
  EXPECT_EQ(digests.size(), 1U);
}

TEST(HeldOut, ClientsMoveBehindTheOthersAndKeepTheirSamples) {
  const DataOptions data{.kind = "random", .shape = {4}, .classes = 3};
  const FederationOptions all{.clients = 10, .partition = "power-law", .samples = 20};
  FederationOptions some = all;
  some.held_out = 0.3;
  const Federation whole = load(data, all);
  const Federation held = load(data, some);
  ASSERT_EQ(held.clients(), 7);
  ASSERT_EQ(held.held_out(), 3);
  std::set<int64_t> begins;
  int64_t train = 0;
  for (int64_t c = 0; c < 10; ++c) begins.insert(whole.train(c).begin);
  for (int64_t c = 0; c < 10; ++c) {
    EXPECT_EQ(begins.erase(held.train(c).begin), 1U);
    if (c != 0 && c != 7) {
      EXPECT_LT(held.train(c - 1).begin, held.train(c).begin);
    }
    if (c < 7) train += held.train(c).size();
  }
  EXPECT_EQ(held.train_samples(), train);
  some.held_out = 3;
  EXPECT_EQ(load(data, some).digest(), held.digest());
}

TEST(HeldOut, BadNumbers) {
  const DataOptions data{.kind = "random", .shape = {4}, .classes = 3};
  const auto message = [&](double held_out) -> std::string {
    try {
      load(data, {.clients = 10, .samples = 5, .held_out = held_out});
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.exit_status(), ExitStatus::kBadInput);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(10).find("leaves nobody to train"), std::string::npos);
  EXPECT_NE(message(0.96).find("leaves nobody to train"), std::string::npos);
  EXPECT_NE(message(2.5).find("whole number"), std::string::npos);
}

}  // namespace
}  // namespace hanse
