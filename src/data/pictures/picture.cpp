#include "pictures/picture.hpp"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// Deflate makes at most 1032 bytes of one. JPEG takes at least a bit for a block of 8 x 8 pixels.
constexpr int64_t kMostPngBytes = 1032, kMostJpegPixels = 512;
constexpr const char* kDamagedHint = "the file is incomplete or corrupt; fetch it again";

InvalidArgument damaged_picture(const std::string& path, const std::string& reason) {
  return InvalidArgument("damaged picture: " + reason, path, kDamagedHint);
}

// Makes room for the picture, if the file's bytes can hold so many pixels.
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

// A PNG file in memory. libpng reports failures by a jump: its calls run in `guarded`.
class PngFile {
 public:
  PngFile(std::span<const uint8_t> bytes, const std::string& path) : left_(bytes), path_(path) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) throw IoError("libpng does not start: no memory", path);
    png_set_read_fn(png_, this, read_bytes);
  }
  ~PngFile() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  // Ignores all that may change colours: gAMA, cHRM, sRGB, iCCP.
  void read_header() {
    guarded([this] {
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_read_info(png_, info_);
    });
  }
  int64_t width() const { return png_get_image_width(png_, info_); }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int bits() const { return png_get_bit_depth(png_, info_); }
  int colours() const { return png_get_color_type(png_, info_); }

  // Reads into [height, width, channels] bytes: the upper 8 of 16 bits, no transparency.
  void read_pixels(std::vector<uint8_t>& pixels) {
    std::vector<png_bytep> rows;
    const std::size_t row_bytes = pixels.size() / to_index(height());
    for (std::size_t at = 0; at < pixels.size(); at += row_bytes) rows.push_back(&pixels[at]);
    guarded([&] {
      if (bits() == 16) png_set_strip_16(png_);
      if (colours() == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (colours() == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      if (png_get_rowbytes(png_, info_) != row_bytes) png_error(png_, "rows of another length");
      png_read_image(png_, rows.data());
    });
  }

 private:
  // A step may make no object with a destructor, for a jump would skip it.
  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(png_jmpbuf(png_))) throw damaged_picture(path_, error_);
    step();
  }
  static void on_error(png_structp png, png_const_charp text) {
    static_cast<PngFile*>(png_get_error_ptr(png))->error_ = text;
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void read_bytes(png_structp png, png_bytep out, std::size_t count) {
    auto& left = static_cast<PngFile*>(png_get_io_ptr(png))->left_;
    if (count > left.size()) png_error(png, "the file ends too early");
    std::memcpy(out, left.data(), count);
    left = left.subspan(count);
  }

  std::span<const uint8_t> left_;
  const std::string& path_;
  std::string error_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

// Mixes inks as Pillow does; JPEG stores 255 less each of them. [pixels, 4] -> [pixels, 3].
void mix_inks(const std::vector<uint8_t>& inks, std::vector<uint8_t>& colours) {
  for (std::size_t p = 0; 4 * p < inks.size(); ++p) {
    const int light = inks[4 * p + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const int product = (255 - inks[4 * p + c]) * light + 128;  // divided by 255 and rounded:
      colours[3 * p + c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

// Does libjpeg warn of something that changes no pixel, and that many cameras write?
bool is_harmless(const std::string& warning) {
  return warning.find("extraneous bytes before marker 0xd9") != std::string::npos ||
         warning.find("unknown JFIF revision") != std::string::npos;
}

constexpr int kFractionBits = 22;  // of the weights, which are fixed-point numbers

// The weights that make one place of the new line.
struct Taps {
  int64_t first = 0;             // index in the old line
  std::vector<int64_t> weights;  // its weight and those of the next
};

std::vector<Taps> taps_of(int64_t old_size, int64_t new_size) {
  const double scale = static_cast<double>(old_size) / static_cast<double>(new_size);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(to_index(new_size));
  for (int64_t i = 0; i < new_size; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    Taps& taps = all[to_index(i)];
    taps.first = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5));
    const int64_t end = std::min(old_size, static_cast<int64_t>(center + reach + 0.5));
    std::vector<double> shares;
    double sum = 0;
    for (int64_t j = taps.first; j < end; ++j) {
      const double distance = std::abs((static_cast<double>(j) - center + 0.5) / reach);
      shares.push_back(std::max(0.0, 1 - distance));
      sum += shares.back();
    }
    for (const double share : shares) {
      taps.weights.push_back(static_cast<int64_t>(share / sum * (1 << kFractionBits) + 0.5));
    }
  }
  return all;
}

// Resizes one axis of [outer, old size, inner] to the number of taps.
std::vector<uint8_t> resize_axis(const std::vector<uint8_t>& in, int64_t outer, int64_t old_size,
                                 int64_t inner, const std::vector<Taps>& all) {
  std::vector<uint8_t> out;
  out.reserve(to_index(outer * std::ssize(all) * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (const Taps& taps : all) {
      const uint8_t* first = in.data() + (o * old_size + taps.first) * inner;
      for (int64_t i = 0; i < inner; ++i) {
        int64_t sum = int64_t{1} << (kFractionBits - 1);
        for (int64_t t = 0; t < std::ssize(taps.weights); ++t) {
          sum += taps.weights[to_index(t)] * first[t * inner + i];
        }
        out.push_back(static_cast<uint8_t>(std::min<int64_t>(sum >> kFractionBits, 255)));
      }
    }
  }
  return out;
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
  PngFile file(file_, path);
  file.read_header();
  const bool is_colour = file.colours() & PNG_COLOR_MASK_COLOR;
  if (file.colours() == PNG_COLOR_TYPE_GRAY && file.bits() == 16) {
    throw InvalidArgument("the picture is grey with 16 bits a pixel", path,
                          "write it with 8 bits: which of the 16 count depends on the data");
  }
  picture_ = {.height = file.height(),
              .width = file.width(),
              .channels = is_colour ? 3 : 1,
              .pixels = std::move(picture_.pixels)};
  make_room(picture_, kMostPngBytes * 8 * std::ssize(file_), path);  // a bit a pixel
  file.read_pixels(picture_.pixels);
}

void PictureReader::read_jpeg(const std::string& path) {
  const auto bytes = static_cast<unsigned long>(file_.size());
  int width = 0, height = 0, sampling = 0, colours = 0;
  const auto complaint = [&](int status) {
    return status == 0 ? std::string() : std::string(tjGetErrorStr2(jpeg_));
  };
  const std::string of_header = complaint(
      tjDecompressHeader3(jpeg_, file_.data(), bytes, &width, &height, &sampling, &colours));
  if (!of_header.empty() && !is_harmless(of_header)) throw damaged_picture(path, of_header);
  const bool is_grey = colours == TJCS_GRAY;
  const bool has_inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  picture_ = {.height = height,
              .width = width,
              .channels = is_grey ? 1 : 3,
              .pixels = std::move(picture_.pixels)};
  make_room(picture_, kMostJpegPixels * static_cast<int64_t>(bytes), path);
  if (has_inks) inks_.resize(picture_.pixels.size() / 3 * 4);
  const auto decode = [&](int flags) {
    return complaint(tjDecompress2(jpeg_, file_.data(), bytes,
                                   has_inks ? inks_.data() : picture_.pixels.data(), width, 0,
                                   height,
                                   is_grey    ? TJPF_GRAY
                                   : has_inks ? TJPF_CMYK
                                              : TJPF_RGB,
                                   TJFLAG_LIMITSCANS | flags));
  };
  // libjpeg tells the last warning, or the first: a harmless one that is both is the only one.
  const std::string last = decode(0);
  if (!last.empty() &&
      (!is_harmless(last) || decode(TJFLAG_STOPONWARNING) != last || decode(0) != last)) {
    throw damaged_picture(path, last);
  }
  if (has_inks) mix_inks(inks_, picture_.pixels);
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

void resize(Picture& picture, int64_t height, int64_t width) {
  if (width != picture.width) {
    picture.pixels = resize_axis(picture.pixels, picture.height, picture.width, picture.channels,
                                 taps_of(picture.width, width));
    picture.width = width;
  }
  if (height != picture.height) {
    picture.pixels = resize_axis(picture.pixels, 1, picture.height,
                                 picture.width * picture.channels, taps_of(picture.height, height));
    picture.height = height;
  }
}

void set_channels(Picture& picture, int64_t channels) {
  if (channels == picture.channels) return;
  std::vector<uint8_t> out;
  const auto& in = picture.pixels;
  if (channels == 3) {
    for (const uint8_t grey : in) out.insert(out.end(), 3, grey);
  } else {
    for (std::size_t p = 0; p < in.size(); p += 3) {
      const uint32_t sum = 19595U * in[p] + 38470U * in[p + 1] + 7471U * in[p + 2];
      out.push_back(static_cast<uint8_t>((sum + (1U << 15)) >> 16));
    }
  }
  picture.pixels = std::move(out);
  picture.channels = channels;
}

}  // namespace hanse
