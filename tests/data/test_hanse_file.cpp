#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hanse/comm/agreement.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "support.hpp"
#include "support/data_folder.hpp"
#include "support/thread_communicator.hpp"

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
  EXPECT_EQ(a.names().clients.digest(), b.names().clients.digest());
  EXPECT_EQ(a.names().classes.digest(), b.names().classes.digest());
  EXPECT_EQ(a.sample_shape(), b.sample_shape());
  EXPECT_EQ(a.classes(), b.classes());
  EXPECT_EQ(a.train_samples(), b.train_samples());
  ASSERT_EQ(a.clients(), b.clients());
  ASSERT_EQ(a.held_out(), b.held_out());
  for (int64_t c = 0; c < a.clients() + a.held_out(); ++c) {
    EXPECT_EQ(values(a, a.train(c)), values(b, b.train(c))) << c;
    EXPECT_EQ(values(a, a.test(c)), values(b, b.test(c))) << c;
    EXPECT_EQ(values(a, a.validation(c)), values(b, b.validation(c))) << c;
  }
  EXPECT_TRUE(std::ranges::equal(a.labels(), b.labels()));
  EXPECT_TRUE(std::ranges::equal(a.targets(), b.targets()));
}

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(HanseFile, HoldsWhatItWasMadeOf) {
  const FederationOptions uneven{.clients = 7, .partition = "power-law", .samples = 13};
  const DataOptions sources[] = {
      {.kind = "random", .shape = {3, 5}, .classes = 4},
      {.kind = "random", .test_fraction = 0, .shape = {7}, .classes = 0},
      {.kind = "random", .validation_fraction = 0.3, .shape = {4}, .classes = 2},
      {.kind = "random", .shape = {3}, .classes = 2, .tokens = 256},
      {.kind = "random", .shape = {3}, .classes = 2, .tokens = 65536},
      {.kind = "random", .shape = {3}, .classes = 2, .tokens = 65537},
      {.kind = "csv", .path = data_folder("/tiny.csv"), .client_column = "site"},
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
    // The file itself can be converted, too.
    const std::string again = folder.file("again.h5");
    write_hanse_file(again, {.kind = "hanse", .path = file}, {}, 3);
    EXPECT_EQ(bytes_of(again), bytes_of(file));
  }
}

// For other programs: HDF5 converts what its type says.
TEST(HanseFile, TokensHaveTheirOwnType) {
  const TempFolder folder;
  const std::string file = folder.file("data.h5");
  for (const auto& [tokens, bytes] : {std::pair{256, 1}, {257, 2}}) {
    const DataOptions source{.kind = "random", .shape = {3}, .classes = 2, .tokens = tokens};
    write_hanse_file(file, source, {.clients = 2, .samples = 5}, 3);
    const hdf5::Section section;
    EXPECT_EQ(hdf5::File::open_to_read(file).dataset("features").type(),
              (hdf5::Type{hdf5::Kind::kInteger, bytes, false}));
  }
}

// Several labels a sample, several outputs, a class a position.
TEST(HanseFile, HoldsLabelsOfEveryForm) {
  const TempFolder folder;
  std::string table = "site,x,a,b\n";
  for (int i = 0; i < 20; ++i) table += fmt::format("s{},{},{},{}\n", i % 3, i, i % 2, i / 10);
  const DataOptions labels{.kind = "csv",
                           .path = folder.write("table.csv", table),
                           .test_fraction = 0.3,
                           .label_column = "a,b",
                           .client_column = "site"};
  DataOptions outputs = labels;
  outputs.task = "regression";
  const DataOptions sequences{.kind = "text",
                              .path = folder.write("play.txt", "A:\nto be or not\n\nB:\nthat is\n"),
                              .window = 4,
                              .targets = TextTargets::kEvery};
  const std::string file = folder.file("data.h5");
  std::set<uint64_t> digests;
  for (const DataOptions& data : {labels, outputs, sequences}) {
    write_hanse_file(file, data, {}, 3);
    const Federation read = load(data, {}), mapped = load({.kind = "hanse", .path = file}, {});
    expect_same(read, mapped);
    EXPECT_EQ(mapped.label_form().values, read.label_form().values);
    EXPECT_EQ(mapped.label_form().multi_label, read.label_form().multi_label);
    digests.insert(read.digest());
    if (data.kind == "text") continue;
    for (int64_t i = 0; i < mapped.samples(); ++i) {  // samples keep their own labels
      const auto x = values(mapped, {i, i + 1})[0];
      EXPECT_EQ(mapped.targets()[static_cast<std::size_t>(2 * i)],
                static_cast<float>(static_cast<int>(x) % 2));
      EXPECT_EQ(mapped.targets()[static_cast<std::size_t>(2 * i + 1)], x < 10 ? 0.0F : 1.0F);
    }
  }
  EXPECT_EQ(digests.size(), 3U);
  EXPECT_NE(hanse_file_text(file, true).find("one a position"), std::string::npos);
  write_hanse_file(file, labels, {}, 3);
  EXPECT_NE(hanse_file_text(file, true).find("classes: 2, several a sample"), std::string::npos);
}

// A table whose clients and classes have names.
std::string named_table(const TempFolder& folder) {
  return folder.write("names.csv",
                      "label,site,x\nill,\"St. Gallen, CH\",1\nwell,Basel,2\nill,Basel,3\n"
                      "well,Zug,4\nill,\"St. Gallen, CH\",5\n");
}

TEST(HanseFile, KeepsNames) {
  const TempFolder folder;
  const DataOptions table{.kind = "csv", .path = named_table(folder), .client_column = "site"};
  const std::string file = folder.file("data.h5");
  write_hanse_file(file, table, {}, 3);
  const DataOptions mapped{.kind = "hanse", .path = file};
  for (const DataOptions& data : {table, mapped}) {
    const Federation federation = load(data, {});
    EXPECT_EQ(client_label(federation, 0), "client 'St. Gallen, CH'");
    EXPECT_EQ(federation.names().clients.at(2), "Zug");
    EXPECT_EQ(federation.names().classes.at(0), "ill");
    EXPECT_EQ(federation.names().classes.at(1), "well");
    // Held out, a client takes its name along.
    const Federation held = load(data, {.held_out = 1});
    std::map<int64_t, std::string> name_of;  // by the first sample
    for (int64_t c = 0; c < 3; ++c) {
      name_of[federation.train(c).begin] = federation.names().clients.at(c);
    }
    ASSERT_EQ(held.held_out(), 1);
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(held.names().clients.at(c), name_of[held.train(c).begin]);
    }
  }
  const Federation others = load(table, {.clients = 2, .partition = "iid"});
  EXPECT_TRUE(others.names().clients.empty());
  EXPECT_EQ(client_label(others, 1), "client 1");
  EXPECT_EQ(others.names().classes.at(1), "well");
  const std::string text = hanse_file_text(file, true);
  for (const char* part : {"clients: 3\n", "client names: St. Gallen, CH, Basel, Zug\n",
                           "samples: 5, ", "shape of a sample: [1], float\n", "classes: 2\n",
                           "class names: ill, well\n", "ok: it is that of the content"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_NE(hanse_file_text(file, false).find("not verified"), std::string::npos);
}

// Every third byte of a file wrong once: it is refused as bad input, or the samples are the same.
// Without the link to its digest a file is one that was written without names and digest.
TEST(HanseFile, DamageIsBadInputBeforeTheFirstRound) {
  const TempFolder folder;
  const std::string whole = folder.file("data.h5");
  write_hanse_file(whole, {.kind = "csv", .path = named_table(folder), .client_column = "site"}, {},
                   3);
  const Federation before = load({.kind = "hanse", .path = whole}, {});
  const std::string content = bytes_of(whole);
  constexpr int kFlips[] = {0x01, 0x80, 0xFF};
  int64_t refused = 0;
  for (std::size_t at = 0; at < content.size(); at += 3) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ kFlips[at / 3 % 3]);
    const std::string file = folder.write("damaged.h5", damaged);
    try {
      const Federation federation = load({.kind = "hanse", .path = file}, {});
      EXPECT_EQ(federation.clients(), before.clients()) << at;
      EXPECT_EQ(values(federation, {0, 5}), values(before, {0, 5})) << at;
      EXPECT_TRUE(std::ranges::equal(federation.labels(), before.labels())) << at;
      if (!federation.names().clients.empty() && !federation.names().classes.empty()) {
        EXPECT_EQ(federation.digest(), before.digest()) << at;
      }
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.exit_status(), ExitStatus::kBadInput) << at << ": " << error.what();
      ++refused;
    }
  }
  std::cout << refused << " of " << content.size() / 3 << " damaged files are refused\n";
  EXPECT_GT(refused, 50);
}

TEST(HanseFile, ContentIsComparedWithItsDigest) {
  const TempFolder folder;
  const DataOptions small{.kind = "random", .shape = {5}, .classes = 3};
  const DataOptions large{.kind = "random", .shape = {1 << 20}, .classes = 3};
  for (const DataOptions& data : {small, large}) {
    const std::string file = folder.file("data.h5");
    write_hanse_file(file, data, {.clients = 4, .samples = 5}, 1);
    std::string first;  // pixels of the first sample
    for (const float value : values(load({.kind = "hanse", .path = file}, {}), {0, 1})) {
      first += static_cast<char>(std::lround(255 * value));
    }
    std::string content = bytes_of(file);
    const std::size_t place = content.find(first);
    ASSERT_NE(place, std::string::npos);
    content[place + 3] ^= 1;
    folder.write("data.h5", content);
    expect_invalid([&] { hanse_file_text(file, true); }, {"the content is damaged", file});
    EXPECT_NE(hanse_file_text(file, false).find("not verified"), std::string::npos);
    // A large file is not read when it is opened.
    const auto open = [&] { load({.kind = "hanse", .path = file}, {}); };
    if (data.shape == large.shape) {
      EXPECT_NO_THROW(open());
    } else {
      EXPECT_THROW(open(), AgreedError);
    }
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

// With parts of their own, drawn apart; those for validation stand first.
TEST(HeldOut, ClientsForValidation) {
  const DataOptions data{.kind = "random", .validation_fraction = 0.25, .shape = {4}, .classes = 3};
  const FederationOptions tests{.clients = 10, .samples = 20, .held_out = 3};
  FederationOptions both = tests;
  both.validation_clients = 2;
  const Federation before = load(data, tests);
  const Federation held = load(data, both);
  ASSERT_EQ(held.clients(), 5);
  ASSERT_EQ(held.held_out(), 5);
  ASSERT_EQ(held.validation_clients(), 2);
  EXPECT_EQ(held.digest(), before.digest());
  for (int64_t c = 7; c < 10; ++c) EXPECT_EQ(held.train(c).begin, before.train(c).begin);
  int64_t validation = 0;
  for (int64_t c = 0; c < 10; ++c) {
    const bool validates = c == 5 || c == 6;
    EXPECT_EQ(is_for_validation(held, c), validates);
    EXPECT_TRUE(held.has_validation(c));
    EXPECT_EQ(held.validation(c).begin, held.train(c).end);
    // All that such a client does not train on, else what lies before the test samples.
    const SampleRange test = held.test(c);
    EXPECT_EQ(held.validation(c).end, validates ? test.end : test.begin);
    if (c < 5) validation += held.validation(c).size();
  }
  EXPECT_EQ(held.validation_samples(), validation);
  EXPECT_FALSE(load({.kind = "random", .shape = {4}, .classes = 3}, tests).has_validation(0));
}

TEST(HeldOut, BadNumbersAreRefused) {
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
