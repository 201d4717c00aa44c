#include "picture.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// Deflate makes 1032 bytes of one at most. JPEG takes a bit at least for a block of 8 x 8 pixels.
constexpr int64_t kMostPngBytes = 1032, kMostJpegPixels = 512;
constexpr const char* kDamagedHint = "the file is incomplete or corrupt; fetch it again";

InvalidArgument damaged_picture(const std::string& path, const std::string& reason) {
  return InvalidArgument("damaged picture: " + reason, path, kDamagedHint);
}

// Room for the picture, of which the file's `bytes` can be so many pixels.
void make_room(Picture& picture, int64_t most_pixels, const std::string& path) {
  const int64_t pixels = picture.width * picture.height;  // each fits in 32 bits
  if (pixels > most_pixels) {
    throw damaged_picture(path, fmt::format("the header promises {} x {} pixels, more than the "
                                            "file can hold",
                                            picture.width, picture.height));
  }
  require_memory(pixels * picture.channels, "the picture takes", path, kDamagedHint);
  picture.pixels.resize(to_index(pixels * picture.channels));
}

}  // namespace

PictureReader::PictureReader() : jpeg_(tjInitDecompress()) {
  if (!jpeg_) throw IoError("libjpeg-turbo does not start: no memory", "", "");
}

PictureReader::~PictureReader() { tjDestroy(jpeg_); }

void PictureReader::read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) throw InvalidArgument("cannot open file: " + errno_text(), path, "check data.path");
  constexpr std::size_t kLeast = 1 << 14;
  std::size_t size = 0;
  do {
    require_memory(2 * static_cast<int64_t>(size), "the file takes more than", path, kDamagedHint);
    file_.resize(std::max({kLeast, file_.size(), 2 * size}));
    size += std::fread(file_.data() + size, 1, file_.size() - size, file.get());
  } while (size == file_.size());
  if (std::ferror(file.get())) throw damaged_picture(path, errno_text());
  file_.resize(size);
}

void PictureReader::read_png(const std::string& path) {
  png_image image{.version = PNG_IMAGE_VERSION};
  const std::unique_ptr<png_image, void (*)(png_image*)> frees(&image, png_image_free);
  if (!png_image_begin_read_from_memory(&image, file_.data(), file_.size())) {
    throw damaged_picture(path, image.message);
  }
  if (image.format & PNG_FORMAT_FLAG_LINEAR) {
    throw InvalidArgument("the picture has 16 bits a channel", path, "write it with 8 bits");
  }
  const bool is_colour = image.format & PNG_FORMAT_FLAG_COLOR;
  const bool has_alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  picture_ = {.height = image.height,
              .width = image.width,
              .channels = is_colour ? 3 : 1,
              .pixels = std::move(picture_.pixels)};
  const auto file_bytes = static_cast<int64_t>(file_.size());
  make_room(picture_, kMostPngBytes * 8 * file_bytes, path);  // a bit a pixel
  image.format = is_colour ? (has_alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB)
                           : (has_alpha ? PNG_FORMAT_GA : PNG_FORMAT_GRAY);
  const auto channels = to_index(picture_.channels);
  const std::size_t pixels = picture_.pixels.size() / channels;
  if (has_alpha) unpacked_.resize(pixels * (channels + 1));
  if (!png_image_finish_read(&image, nullptr, (has_alpha ? unpacked_ : picture_.pixels).data(), 0,
                             nullptr)) {
    throw damaged_picture(path, image.message);
  }
  if (!has_alpha) return;
  for (std::size_t p = 0; p < pixels; ++p) {
    std::copy_n(&unpacked_[p * (channels + 1)], channels, &picture_.pixels[p * channels]);
  }
}

void PictureReader::read_jpeg(const std::string& path) {
  const auto bytes = static_cast<unsigned long>(file_.size());
  int width = 0, height = 0, sampling = 0, colours = 0;
  const auto check = [&](int status) {
    if (status != 0) throw damaged_picture(path, tjGetErrorStr2(jpeg_));
  };
  check(tjDecompressHeader3(jpeg_, file_.data(), bytes, &width, &height, &sampling, &colours));
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    throw InvalidArgument("the picture has the colours of inks (CMYK)", path, "write it as RGB");
  }
  const bool is_grey = colours == TJCS_GRAY;
  picture_ = {.height = height,
              .width = width,
              .channels = is_grey ? 1 : 3,
              .pixels = std::move(picture_.pixels)};
  make_room(picture_, kMostJpegPixels * static_cast<int64_t>(bytes), path);
  check(tjDecompress2(jpeg_, file_.data(), bytes, picture_.pixels.data(), width, 0, height,
                      is_grey ? TJPF_GRAY : TJPF_RGB, TJFLAG_LIMITSCANS));
}

const Picture& PictureReader::read(const std::string& path) {
  read_file(path);
  if (file_.size() >= 8 && png_sig_cmp(file_.data(), 0, 8) == 0) {
    read_png(path);
  } else if (file_.size() >= 2 && file_[0] == 0xFF && file_[1] == 0xD8) {
    read_jpeg(path);
  } else {
    throw InvalidArgument("neither PNG nor JPEG", path,
                          file_.empty() ? "the file is empty; fetch it again"
                                        : "write it as one of them, or take it out of the folder");
  }
  return picture_;
}

}  // namespace hanse
