// PNG and JPEG files as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

// Bytes [height, width, channels]; 1 channel: grey, 3: red, green, blue.
struct Picture {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

class PictureReader {
 public:
  PictureReader();
  ~PictureReader();
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;

  // Decodes a file, which its first bytes say to be PNG or JPEG. A palette becomes colour, and
  // transparency goes: the pixels are those of torchvision's loader, but grey stays grey. The
  // result is the reader's until the next call. Throws InvalidArgument: neither format, damaged or
  // cut, 16 bits a channel, inks (CMYK), more pixels than the file can hold.
  const Picture& read(const std::string& path);

 private:
  void read_file(const std::string& path);
  void read_png(const std::string& path);
  void read_jpeg(const std::string& path);

  void* jpeg_;  // tjhandle
  std::vector<uint8_t> file_;
  std::vector<uint8_t> unpacked_;  // PNG with transparency
  Picture picture_;
};

// Grey of colour by ITU-R 601-2, (19595 R + 38470 G + 7471 B + 2^15) / 2^16; colour of grey by
// three equal channels. REQUIRES: channels is 1 or 3.
void set_channels(Picture& picture, int64_t channels);

// By the linear filter that grows with the shrinking (antialiased), columns first, then rows, each
// rounded to bytes: what torchvision's Resize makes of a PIL image, to the byte.
// REQUIRES: height and width are at least 1. Cost: O(pixels * (1 + shrinking)).
void resize(Picture& picture, int64_t height, int64_t width);

}  // namespace hanse
