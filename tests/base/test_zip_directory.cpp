// Archives whose directory promises what the file cannot hold.
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/zip_directory.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"
#include "support/zip_file.hpp"

namespace hanse {
namespace {

void check(const std::string& bytes) {
  const ScratchFolder folder;
  std::ofstream(folder / "net.pt", std::ios::binary) << bytes;
  check_archive({folder / "net.pt", "TorchScript", "save it anew"});
}

void expect_refused(const std::string& bytes, const std::string& why) {
  expect_error<InvalidArgument>([&] { check(bytes); }, {why, "net.pt"});
}

const std::vector<ZipEntry> kEntries = {{"net/data.pkl", "pickle"}, {"net/code.py", "pass"}};

// With other bytes in place of those at `at`, counted from the end where it is negative.
std::string changed(std::string file, int64_t at, const std::string& bytes) {
  return file.replace(static_cast<std::size_t>(at < 0 ? std::ssize(file) + at : at), bytes.size(),
                      bytes);
}

TEST(Archive, AGoodOneIsRead) {
  for (const bool large : {false, true}) {
    check(zip_of(kEntries, large));
    check(zip_of({}, large));
  }
}

TEST(Archive, WhatIsNoneIsRefused) {
  const std::string file = zip_of(kEntries, true);
  expect_refused("", "the file is empty");
  expect_refused("no archive", "no zip file, or cut off");
  expect_refused(file.substr(0, file.size() - 22), "no zip file, or cut off");
  expect_refused(file.substr(0, file.size() - 6), "ends too early");
  expect_refused(file + std::string(100'000, '\0'), "no zip file, or cut off");
}

TEST(Archive, ItsDirectoryLiesInTheFile) {
  const std::string file = zip_of(kEntries, false), large = zip_of(kEntries, true);
  const std::string many(4, '\x7f'), most(8, '\xff');
  expect_refused(changed(file, -12, "\xff\xff"), "promises a directory of 65535 entries");
  expect_refused(changed(file, -10, many), "promises a directory of 2 entries");
  expect_refused(changed(file, -6, many), "promises a directory of 2 entries");
  const int64_t end = -22 - 20 - 56;
  for (const int64_t at : {32, 40, 48}) {
    expect_refused(changed(large, end + at, most), "promises a directory of ");
  }
  expect_refused(changed(large, -22 - 20 + 8, most), "no directory of a large archive");
}

TEST(Archive, EntriesPromiseWhatTheFileHolds) {
  const std::string file = zip_of(kEntries, false);
  const auto entry = static_cast<int64_t>(file.find("PK\1\2"));
  const std::string most(4, '\x7f');
  expect_refused(changed(file, entry, "XX"), "directory is damaged");
  expect_refused(changed(file, entry + 20, most), "6 bytes, packed as 2139062143, of entry 0");
  expect_refused(changed(file, entry + 24, most), "2139062143 bytes, packed as 6, of entry 0");
  expect_refused(changed(file, entry + 42, most), "of entry 0");
  expect_refused(changed(file, entry + 24, std::string(4, '\xff')),
                 "a size of an entry is missing");
  // Each alone would fit.
  const std::string half = number_bytes(static_cast<uint64_t>(entry) / 2 + 1, 4);
  const auto second = static_cast<int64_t>(file.rfind("PK\1\2"));
  expect_refused(changed(changed(file, entry + 20, half), second + 20, half), "of entry 1");
}

// Sizes that do not fit in 32 bits stand in an extra field.
TEST(Archive, SizesOf64Bits) {
  const std::string file = zip_of({{"net/data.pkl", "pickle"}}, false);
  const auto entry = static_cast<int64_t>(file.find("PK\1\2"));
  const auto end = static_cast<int64_t>(file.find("PK\5\6"));
  const auto with_sizes = [&](uint64_t unpacked, uint64_t packed) {
    const std::string extra = number_bytes(99, 2) + number_bytes(1, 2) + "x" +  //
                              number_bytes(1, 2) + number_bytes(16, 2) + number_bytes(unpacked, 8) +
                              number_bytes(packed, 8);
    std::string large = changed(file, entry + 20, std::string(8, '\xff'));
    large = changed(large, entry + 30, number_bytes(extra.size(), 2));
    large = changed(large, end + 12,
                    number_bytes(static_cast<uint64_t>(end - entry) + extra.size(), 4));
    return large.insert(static_cast<std::size_t>(end), extra);
  };
  check(with_sizes(6, 6));
  expect_refused(with_sizes(7000, 6), "7000 bytes, packed as 6, of entry 0");
  expect_refused(with_sizes(6, UINT64_MAX), "of entry 0");
}

}  // namespace
}  // namespace hanse
