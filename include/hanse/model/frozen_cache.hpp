// The frozen values of a federation's samples: computed in blocks, and kept where there is room.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/frozen_part.hpp"
#include "hanse/model/frozen_store.hpp"

namespace hanse {

// A block is kBlock samples that stand one behind the other in the federation, the last one the
// rest. What is computed of a sample is computed of its block, so that its bits depend on nothing
// else: not on the batch, the ranks, or on what was kept. Without a store a block is computed again
// in every batch that has a sample of it.
class FrozenCache final : public FrozenValues {
 public:
  static constexpr int64_t kBlock = 16;

  // Both must outlive the object.
  FrozenCache(const Federation& federation, FrozenPart& part);

  // The store of all blocks.
  FrozenStore::Shape shape() const;
  // Keeps them there from now on.
  void keep_in(FrozenStore store) { store_ = std::move(store); }
  bool is_kept() const { return store_.has_value(); }
  int64_t samples() const { return federation_.samples(); }
  int64_t values() const { return part_.values(); }  // of a sample
  const FrozenPart& part() const { return part_; }
  // The digest of the first block's samples. With that of the part and what else fixes the bits it
  // names the values.
  std::string first_samples() const;
  // Seconds that the blocks of all samples take on one rank, as the first one does.
  double seconds_of_all();

  void gather(const Batch& batch, float* out) override;

  // Blocks that this object has computed so far.
  int64_t computed() const { return computed_; }

 private:
  const float* block(int64_t number);
  void compute(int64_t number, float* out);
  SampleRange samples_of(int64_t number) const;

  const Federation& federation_;
  FrozenPart& part_;
  std::optional<FrozenStore> store_;
  AlignedFloats samples_;  // of a block
  struct Made {
    int64_t number;
    AlignedFloats values;
  };
  std::vector<std::unique_ptr<Made>> made_;  // by the last call, the first used_
  std::size_t used_ = 0;
  int64_t computed_ = 0;
};

}  // namespace hanse
