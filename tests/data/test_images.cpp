// Folders of pictures, from files to samples.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <png.h>

#include "support.hpp"

namespace hanse {
namespace {

// A picture of one row; its bytes are those of the pixels, three each in colour.
std::string png_of(const std::string& pixels, bool colour) {
  png_image image{.version = PNG_IMAGE_VERSION,
                  .width = static_cast<png_uint_32>(pixels.size() / (colour ? 3 : 1)),
                  .height = 1,
                  .format = static_cast<png_uint_32>(colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY)};
  std::string file(1000, '\0');
  png_alloc_size_t size = file.size();
  png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr);
  return file.substr(0, size);
}

class ImagesTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(folder_.file(name)).parent_path());
    folder_.write(name, bytes);
  }
  std::string read(const std::vector<int64_t>& shape = {}) {
    dataset_ = read_images(folder_.path(), shape);
    std::string text;
    for (const std::byte value : dataset_.features) text += static_cast<char>(value);
    return text;
  }
  TempFolder folder_;
  Dataset dataset_;
};

TEST_F(ImagesTest, FoldersAreClassesAndChannelsComeFirst) {
  put("dog/a.png", png_of("GHIJKL", true));
  put("cat/b.png", png_of("ABCDEF", true));
  EXPECT_EQ(read(), "ADBECFGJHKIL");
  EXPECT_EQ(dataset_.shape, (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(dataset_.labels, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(dataset_.class_names, (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(ImagesTest, AShapeMakesAllAlike) {
  put("cat/a.png", png_of("AAAAAA", true));
  put("dog/b.png", png_of("B", false));
  EXPECT_EQ(read({1, 1, 2}), "AABB");
}

TEST_F(ImagesTest, PicturesThatDifferOrAreNoneAreRefused) {
  put("cat/a.png", png_of("AAAAAA", true));
  put("dog/b.png", png_of("BBB", false));
  expect_invalid([&] { read(); }, {"the picture has 1 x 3 pixels in grey", "b.png", "data.shape"});
  put("dog/b.png", "no picture");
  expect_invalid([&] { read(); }, {"b.png"});
}

}  // namespace
}  // namespace hanse
