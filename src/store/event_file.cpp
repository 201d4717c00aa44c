#include "hanse/store/event_file.hpp"

#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>

#include <boost/crc.hpp>
#include <fmt/format.h>

namespace hanse {

namespace fs = std::filesystem;

namespace {

// Wire types of protocol buffers.
enum class Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// The bytes of a number, little-endian as the processor has them.
template <class T>
void put_number(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_tag(std::string& out, uint32_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<uint32_t>(wire));
}

void put_bytes(std::string& out, uint32_t field, const std::string& bytes) {
  put_tag(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// An event whose field `field` has these contents.
std::string event(int64_t step, uint32_t field, const std::string& contents) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string out;
  put_tag(out, 1, Wire::kFixed64);
  put_number(out, now.count());
  put_tag(out, 2, Wire::kVarint);
  put_varint(out, static_cast<uint64_t>(step));
  put_bytes(out, field, contents);
  return out;
}

std::string scalar(const std::string& tag, double number) {
  std::string out;
  put_bytes(out, 1, tag);
  put_tag(out, 2, Wire::kFixed32);
  put_number(out, static_cast<float>(number));
  return out;
}

uint32_t masked_crc(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

// The folder's next file.
GrowingFile open_next(const std::string& folder) {
  fs::create_directories(folder);
  for (int number = 1;; ++number) {
    const auto path = fs::path(folder) / fmt::format("events.out.tfevents.{:04}", number);
    if (!fs::exists(path)) return {path.string(), "wbe"};
  }
}

}  // namespace

EventFile::EventFile(const std::string& folder, int64_t completed) : file_(open_next(folder)) {
  append_record(event(0, 3, "brain.Event:2"));
  const bool goes_on = std::next(fs::directory_iterator(folder)) != fs::directory_iterator();
  if (!goes_on) return;
  std::string log;
  put_tag(log, 1, Wire::kVarint);
  put_varint(log, 1);
  append_record(event(completed + 1, 7, log));
}

void EventFile::append(int64_t round, const std::string& prefix, const Metrics& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    if (std::isfinite(value)) put_bytes(summary, 1, scalar(prefix + "/" + name, value));
  }
  append_record(event(round, 5, summary));
}

void EventFile::append_record(const std::string& event) {
  std::string record;
  put_number(record, uint64_t{event.size()});
  put_number(record, masked_crc(record));
  record += event;
  put_number(record, masked_crc(event));
  file_.append(record);
}

}  // namespace hanse
