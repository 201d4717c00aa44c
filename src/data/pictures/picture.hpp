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

  // Decodes a file, which its first bytes say to be PNG or JPEG. The pixels are those of Pillow's
  // convert("RGB"), which is torchvision's loader, but grey stays grey: a palette and inks (CMYK)
  // become colour, transparency goes, the upper 8 of a channel's 16 bits stay, and neither colour
  // spaces (gAMA, sRGB, iCCP) nor the orientation in EXIF change anything. The result is valid
  // until the next call. Throws InvalidArgument: neither format, damaged or cut, grey of 16 bits
  // (which Pillow cuts at 255), more pixels than the file can hold.
  const Picture& read(const std::string& path);

 private:
  void read_file(const std::string& path);
  void read_png(const std::string& path);
  void read_jpeg(const std::string& path);

  void* jpeg_;  // tjhandle
  std::vector<uint8_t> file_;
  std::vector<uint8_t> inks_;  // [height, width, 4] of a JPEG
  Picture picture_;
};

// Makes grey from colour by ITU-R 601-2, (19595 R + 38470 G + 7471 B + 2^15) / 2^16; colour from
// grey by three equal channels. REQUIRES: channels is 1 or 3.
void set_channels(Picture& picture, int64_t channels);

// Resizes by the linear filter that grows with the shrinking (antialiased), columns first, then
// rows, each rounded to bytes: to the byte as torchvision's Resize of a PIL image. REQUIRES: height
// and width are at least 1. Cost: O(pixels * (1 + shrinking)).
void resize(Picture& picture, int64_t height, int64_t width);

}  // namespace hanse
