// What tests of Gram matrices compare with.
#pragma once

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/base/row_part.hpp"
#include "hanse/comm/forwarding_communicator.hpp"

namespace hanse {

using Rows = std::vector<std::vector<float>>;

inline Rows make_rows(int64_t k, int64_t n) {
  Rows rows(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RandomStream stream(3, Purpose::kData, i);
    rows[i].resize(static_cast<std::size_t>(n));
    for (float& x : rows[i]) x = static_cast<float>(stream.normal());
  }
  return rows;
}

// [parts, K, K], one product after another in long double.
inline std::vector<double> slow_gram(const Rows& rows, const std::vector<RowPart>& parts) {
  std::vector<double> result;
  for (const RowPart& part : parts) {
    for (const auto& a : rows) {
      for (const auto& b : rows) {
        long double sum = 0;
        for (auto i = static_cast<std::size_t>(part.begin); i < static_cast<std::size_t>(part.end);
             ++i) {
          sum += static_cast<long double>(a[i]) * static_cast<long double>(b[i]);
        }
        result.push_back(static_cast<double>(sum));
      }
    }
  }
  return result;
}

// Counts the values that come from each other rank.
class Counting final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  std::map<int, int64_t> received;  // bytes, by sender
  int64_t others = 0;               // bytes of products, and by any other way

 private:
  void bcast_impl(Buffer buffer, int root) override {
    others += buffer.bytes();
    ForwardingCommunicator::bcast_impl(buffer, root);
  }
  void reduce_impl(Buffer, ReduceOp, int) override { FAIL() << "nothing is reduced here"; }
  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                      std::vector<int64_t>& bytes_of) override {
    auto all = ForwardingCommunicator::gatherv_impl(data, root, bytes_of);
    others += static_cast<int64_t>(all.size());
    return all;
  }
  void allgatherv_impl(Buffer buffer, std::span<const int64_t> counts) override {
    others += buffer.bytes();
    ForwardingCommunicator::allgatherv_impl(buffer, counts);
  }
  void alltoallv_impl(std::span<const std::byte> out, std::span<const int64_t> sends,
                      std::span<std::byte> in, std::span<const int64_t> receives,
                      std::size_t width) override {
    int from = 0;
    const bool values = width == sizeof(float);
    for (const int64_t bytes : in_bytes(receives, width)) {
      (values ? received[from++] : others) += bytes;
    }
    ForwardingCommunicator::alltoallv_impl(out, sends, in, receives, width);
  }
};

}  // namespace hanse
