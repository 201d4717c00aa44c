// HDF5 files that a stranger may send.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "hanse/base/error.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

using Extents = std::vector<hsize_t>;

// Makes a file with the library itself.
class Stranger {
 public:
  explicit Stranger(const std::string& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  ~Stranger() {
    H5Pclose(creation_);
    H5Fclose(file_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  hid_t file() const { return file_; }
  hid_t creation() const { return creation_; }

  // Nothing is written to it when `values` is empty.
  void add(const char* name, const Extents& extents, const std::vector<float>& values = {}) {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t dataset =
        H5Dcreate2(file_, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation_, H5P_DEFAULT);
    ASSERT_GE(dataset, 0);
    if (!values.empty()) {
      H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    }
    H5Dclose(dataset);
    H5Sclose(space);
  }

 private:
  hid_t file_;
  hid_t creation_ = H5Pcreate(H5P_DATASET_CREATE);
};

void expect_refused(const std::string& path, const std::string& name, const std::string& why) {
  const hdf5::Section section;
  const auto file = hdf5::File::open_to_read(path);
  expect_error<IoError>([&] { file.dataset(name); }, {why, path});
}

std::vector<float> read(const std::string& path, const std::string& name) {
  const hdf5::Section section;
  return hdf5::File::open_to_read(path).dataset(name).values<float>();
}

size_t same_bytes(unsigned, size_t, const unsigned*, size_t bytes, size_t*, void**) {
  return bytes;
}

hid_t nowhere(const char*, hid_t, const void*, size_t, hid_t, hid_t) { return -1; }

TEST(StrangersHdf5, FiltersOfTheLibraryAreRead) {
  const ScratchFolder folder;
  const std::string path = folder / "packed.h5";
  const std::vector<float> zeros(100'000);
  {
    Stranger file(path);
    const Extents chunk = {50'000};
    H5Pset_chunk(file.creation(), 1, chunk.data());
    H5Pset_shuffle(file.creation());
    H5Pset_deflate(file.creation(), 9);
    file.add("x", {100'000}, zeros);
  }
  EXPECT_EQ(read(path, "x"), zeros);
}

TEST(StrangersHdf5, APluginIsNotLoaded) {
  const ScratchFolder folder;
  const std::string path = folder / "filter.h5";
  constexpr H5Z_filter_t kForeign = 305;
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kForeign, 1, 1, "", nullptr, nullptr, same_bytes};
  ASSERT_GE(H5Zregister(&filter), 0);
  {
    Stranger file(path);
    const Extents chunk = {4};
    H5Pset_chunk(file.creation(), 1, chunk.data());
    H5Pset_filter(file.creation(), kForeign, 0, 0, nullptr);
    file.add("x", {4}, {1, 2, 3, 4});
  }
  H5Zunregister(kForeign);
  expect_refused(path, "x", "x needs the filter 305");
  unsigned plugins = 1;
  H5PLget_loading_state(&plugins);
  EXPECT_EQ(plugins, 0U);
}

TEST(StrangersHdf5, NothingOfOtherFilesIsRead) {
  const ScratchFolder folder;
  const std::string path = folder / "outside.h5";
  const std::string secret = folder / "secret";
  std::ofstream(secret) << "1234567812345678";
  {
    Stranger file(path);
    H5Pset_external(file.creation(), secret.c_str(), 0, 16);
    file.add("external", {4});
  }
  expect_refused(path, "external", "external lies in other files");
  {
    Stranger file(path);
    const Extents extents = {4};
    const hid_t space = H5Screate_simple(1, extents.data(), nullptr);
    H5Pset_virtual(file.creation(), space, secret.c_str(), "x", space);
    H5Sclose(space);
    file.add("virtual", {4});
  }
  expect_refused(path, "virtual", "virtual lies in other files");
}

TEST(StrangersHdf5, LinksLeadIntoNoOtherFile) {
  const ScratchFolder folder;
  const std::string path = folder / "link.h5", other = folder / "other.h5";
  { Stranger(other).add("x", {2}, {5, 6}); }
  { const hdf5::Section closes_ways_out; }
  EXPECT_EQ(H5Lis_registered(H5L_TYPE_EXTERNAL), 0);
  // Without a class for them such links cannot even be made.
  H5L_class_t links = {};
  links.version = H5L_LINK_CLASS_T_VERS;
  links.id = H5L_TYPE_EXTERNAL;
  links.trav_func = nowhere;
  ASSERT_GE(H5Lregister(&links), 0);
  {
    const Stranger file(path);
    ASSERT_GE(
        H5Lcreate_external(other.c_str(), "x", file.file(), "there", H5P_DEFAULT, H5P_DEFAULT), 0);
  }
  H5Lunregister(H5L_TYPE_EXTERNAL);
  EXPECT_EQ(read(other, "x"), (std::vector<float>{5, 6}));
  expect_refused(path, "there", "cannot open there");
}

TEST(StrangersHdf5, AHeaderCannotPromiseMoreThanTheFileHolds) {
  const ScratchFolder folder;
  const std::string path = folder / "promise.h5";
  constexpr hsize_t kMany = hsize_t{1} << 40;
  {
    Stranger file(path);
    const Extents chunk = {1000};
    H5Pset_chunk(file.creation(), 1, chunk.data());
    file.add("chunks", {kMany});
  }
  expect_refused(path, "chunks", "chunks promises 1099511627776 elements");
  {
    Stranger file(path);
    H5Pset_fill_time(file.creation(), H5D_FILL_TIME_NEVER);
    file.add("late", {kMany});
  }
  expect_refused(path, "late", "late promises 1099511627776 elements");
  {
    Stranger file(path);
    const Extents chunk = {1, 1, 1};
    H5Pset_chunk(file.creation(), 3, chunk.data());
    file.add("wraps", {1, kMany, kMany});
    file.add("empty", {0, kMany, kMany});
  }
  for (const std::string name : {"wraps", "empty"}) {
    expect_refused(path, name, name + " has more elements than can be counted");
  }
}

TEST(StrangersHdf5, ElementsHaveASize) {
  const ScratchFolder folder;
  const std::string path = folder / "type.h5";
  Stranger(path).add("numbers", {1000});
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  const std::string float32("\x11\x20\x1f\x00\x04", 5);  // class, bits, and the size
  const std::size_t at = bytes.find(float32);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = 0;
  std::ofstream(path, std::ios::binary) << bytes;
  expect_refused(path, "numbers", "numbers has elements without a size");
}

}  // namespace
}  // namespace hanse
