// What stands plainly in a file of HDF5, against the library that wrote it.
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "data/plain_hdf5.hpp"
#include "data/support.hpp"
#include "hanse/base/random.hpp"

namespace hanse {
namespace {

using Extents = std::vector<hsize_t>;

// A file with one group, written by the library.
class File {
 public:
  explicit File(const std::string& path, bool latest = false) : path_(path) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (latest) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    group_ = H5Gcreate2(file_, "client", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  }
  ~File() {
    for (const hid_t dataset : datasets_) H5Dclose(dataset);
    H5Gclose(group_);
    H5Fclose(file_);
  }

  // Bytes 1, 2, 3, ...; `creation` is closed.
  hid_t add(const std::string& name, hid_t type, const Extents& extents,
            hid_t creation = H5Pcreate(H5P_DATASET_CREATE)) {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t dataset =
        H5Dcreate2(group_, name.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) *
                                     H5Tget_size(type));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i + 1);
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    H5Pclose(creation);
    H5Sclose(space);
    datasets_.push_back(dataset);
    return dataset;
  }

  // Strings of variable length.
  void add_texts(const std::string& name, const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    const Extents extents = {texts.size()};
    const hid_t space = H5Screate_simple(1, extents.data(), nullptr);
    const hid_t dataset =
        H5Dcreate2(group_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data());
    H5Sclose(space);
    H5Tclose(type);
    datasets_.push_back(dataset);
  }

  hid_t group() const { return group_; }

  uint64_t address() const {
    H5Fflush(file_, H5F_SCOPE_LOCAL);
    H5O_info_t info;
    H5Oget_info2(group_, &info, H5O_INFO_BASIC);
    return info.addr;
  }

 private:
  std::string path_;
  hid_t file_, group_;
  std::vector<hid_t> datasets_;
};

void expect_found(const PlainHdf5& plain, uint64_t group, const std::string& name, hid_t dataset,
                  const Extents& extents) {
  const auto found = plain.find(group, name);
  ASSERT_TRUE(found) << name;
  EXPECT_EQ(Extents(found->extents.begin(), found->extents.end()), extents) << name;
  EXPECT_EQ(found->address, H5Dget_offset(dataset)) << name;
  ASSERT_EQ(found->data.size(), H5Dget_storage_size(dataset)) << name;
  for (std::size_t i = 0; i < found->data.size(); ++i) {
    ASSERT_EQ(found->data[i], static_cast<std::byte>(i + 1)) << name;
  }
}

TEST(PlainHdf5, FindsDatasetsWhereTheLibraryWroteThem) {
  const TempFolder folder;
  File file(folder.file("a.h5"));
  const hid_t label = file.add("label", H5T_STD_I64LE, {5});
  const hid_t pixels = file.add("pixels", H5T_IEEE_F32LE, {5, 3, 2});
  const hid_t longer = file.add("label2", H5T_STD_U8LE, {1});
  const hid_t space = H5Screate(H5S_SCALAR);
  for (int i = 0; i < 30; ++i) {  // until the header goes on elsewhere
    const auto name = fmt::format("attribute {}", i);
    H5Aclose(H5Acreate2(label, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
  }
  H5Sclose(space);
  const uint64_t group = file.address();
  const PlainHdf5 plain(folder.file("a.h5"));
  expect_found(plain, group, "label", label, {5});
  expect_found(plain, group, "pixels", pixels, {5, 3, 2});
  expect_found(plain, group, "label2", longer, {1});
  for (const char* name : {"", "labe", "label3", "pixels/", "x"}) {
    EXPECT_FALSE(plain.find(group, name)) << name;
  }
  const auto a = plain.find(group, "label"), b = plain.find(group, "pixels");
  EXPECT_FALSE(std::equal(a->type.begin(), a->type.end(), b->type.begin(), b->type.end()));
}

TEST(PlainHdf5, FindsAmongManyDatasets) {
  const TempFolder folder;
  File file(folder.file("a.h5"));
  std::vector<hid_t> datasets;
  for (hsize_t i = 0; i < 40; ++i) {
    datasets.push_back(file.add(fmt::format("d{}", i * 7 % 40), H5T_STD_U8LE, {i + 1}));
  }
  const uint64_t group = file.address();
  const PlainHdf5 plain(folder.file("a.h5"));
  for (hsize_t i = 0; i < 40; ++i) {
    expect_found(plain, group, fmt::format("d{}", i * 7 % 40), datasets[i], {i + 1});
  }
}

TEST(PlainHdf5, LeavesTheRestToTheLibrary) {
  const TempFolder folder;
  File file(folder.file("a.h5"));
  const auto created = [](auto change) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    change(creation);
    return creation;
  };
  const hsize_t chunk[] = {4};
  file.add("chunked", H5T_STD_U8LE, {8}, created([&](hid_t c) { H5Pset_chunk(c, 1, chunk); }));
  file.add("compact", H5T_STD_U8LE, {8}, created([](hid_t c) { H5Pset_layout(c, H5D_COMPACT); }));
  file.add("external", H5T_STD_U8LE, {8},
           created([&](hid_t c) { H5Pset_external(c, folder.file("raw").c_str(), 0, 8); }));
  file.add("scalar", H5T_STD_U8LE, {});
  file.add("empty", H5T_STD_U8LE, {0});
  const hid_t named = H5Tcopy(H5T_STD_U8LE);
  H5Tcommit2(file.group(), "type", named, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  file.add("of a named type", named, {8});
  H5Tclose(named);
  H5Lcreate_soft("plain", file.group(), "soft", H5P_DEFAULT, H5P_DEFAULT);
  const hid_t dataset = file.add("plain", H5T_STD_U8LE, {8});
  const uint64_t group = file.address();
  const PlainHdf5 plain(folder.file("a.h5"));
  expect_found(plain, group, "plain", dataset, {8});
  for (const char* name :
       {"chunked", "compact", "external", "scalar", "empty", "type", "of a named type", "soft"}) {
    EXPECT_FALSE(plain.find(group, name)) << name;
  }
  EXPECT_FALSE(plain.find(0, "plain"));
  EXPECT_FALSE(plain.find(UINT64_MAX, "plain"));
  File newest(folder.file("b.h5"), true);
  newest.add("plain", H5T_STD_U8LE, {8});
  EXPECT_FALSE(PlainHdf5(folder.file("b.h5")).find(newest.address(), "plain"));
}

// Of the dataset "texts"; none when one of them is not there.
std::optional<std::vector<std::string>> texts_in(const PlainHdf5& plain, uint64_t group) {
  const auto found = plain.find(group, "texts");
  if (!found) return {};
  std::vector<std::string> texts;
  for (std::size_t at = 0; at + PlainHdf5::kTextBytes <= found->data.size();
       at += PlainHdf5::kTextBytes) {
    const auto text = plain.text(found->data.subspan(at).first<PlainHdf5::kTextBytes>());
    if (!text) return {};
    texts.emplace_back(*text);
  }
  return texts;
}

TEST(PlainHdf5, ReadsTextsOfAnyLength) {
  const TempFolder folder;
  File file(folder.file("a.h5"));
  std::vector<std::string> texts = {"", "a", "seven b", "eight by", "nine byte"};
  for (std::size_t i = 0; i < 300; ++i) {  // some heaps
    texts.push_back(fmt::format("{}", i) +
                    std::string(i * 37 % 100, static_cast<char>('a' + i % 26)));
  }
  texts.push_back(std::string(100'000, 'x'));
  texts.push_back("last");
  file.add_texts("texts", texts);
  const uint64_t group = file.address();
  EXPECT_EQ(texts_in(PlainHdf5(folder.file("a.h5")), group), texts);
}

// Calls check(file with damaged bytes, its size); returns how often it said that something was
// read.
template <class Check>
int read_damaged(const std::string& whole, int attempts, Check check) {
  const TempFolder folder;
  RandomStream random(1, Purpose::kData);
  int read = 0;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    std::string damaged = whole;
    for (int flips = 0; flips < 4; ++flips) {
      const auto place = static_cast<std::size_t>(random.uniform() * 8192) % whole.size();
      damaged[place] = static_cast<char>(random.uniform() < 0.5 ? 255 : 256 * random.uniform());
    }
    if (attempt % 5 == 0) damaged.resize(static_cast<std::size_t>(random.uniform() * 8192) + 1);
    folder.write("b.h5", damaged);
    read += check(PlainHdf5(folder.file("b.h5")), damaged.size()) ? 1 : 0;
  }
  return read;
}

// Nothing is read outside the file, and nothing goes on forever.
TEST(PlainHdf5, IsSafeOnAnyBytes) {
  const TempFolder folder;
  uint64_t group = 0;
  {
    File file(folder.file("a.h5"));
    file.add("pixels", H5T_IEEE_F32LE, {5, 3, 2});
    file.add_texts("texts", std::vector<std::string>(40, "some words"));
    group = file.address();
  }
  std::ifstream in(folder.file("a.h5"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const int pixels = read_damaged(whole, 300, [&](const PlainHdf5& plain, std::size_t size) {
    const auto dataset = plain.find(group, "pixels");
    if (dataset) EXPECT_LE(dataset->address + dataset->data.size(), size);
    return dataset.has_value();
  });
  const int texts = read_damaged(whole, 300, [&](const PlainHdf5& plain, std::size_t) {
    return texts_in(plain, group).has_value();
  });
  for (const int read : {pixels, texts}) {
    EXPECT_GT(read, 50);
    EXPECT_LT(read, 300);
  }
}

}  // namespace
}  // namespace hanse
