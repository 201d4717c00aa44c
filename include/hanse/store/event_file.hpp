// Scalars for TensorBoard: a folder of event files, each a sequence of TFRecords that hold
// protocol-buffer messages `Event`.
//
//   record:  uint64 length | uint32 crc(length) | data [length] | uint32 crc(data), little-endian;
//            crc is CRC-32C, rotated right by 15 and increased by 0xa282ead8
//   Event:   1 wall_time double | 2 step varint | 3 file_version | 5 summary | 7 session_log
//   summary: 1 value*, value: 1 tag | 2 simple_value float;  session_log: 1 status (1: start)
#pragma once

#include <cstdint>
#include <string>

#include "hanse/evaluation/evaluation.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

class EventFile {
 public:
  // Begins the folder's next file, events.out.tfevents.NNNN. When others are there, it opens with
  // the start of a session at round completed + 1: readers drop what they have from that round on.
  // Throws IoError.
  EventFile(const std::string& folder, int64_t completed);

  // One event with a scalar PREFIX/NAME for each finite value.
  void append(int64_t round, const std::string& prefix, const Metrics& values);
  // Throws IoError on a full disk.
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }

 private:
  void append_record(const std::string& event);

  GrowingFile file_;
};

}  // namespace hanse
