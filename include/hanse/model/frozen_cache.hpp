// The frozen values of a federation's samples: computed in blocks, and kept where there is room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "hanse/base/aligned.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/frozen_part.hpp"
#include "hanse/model/frozen_store.hpp"

namespace hanse {

// A block is kBlock samples that stand one behind the other in the federation, the last one the
// rest. What is computed of a sample is computed of its block, so that its bits depend on nothing
// else: not on the batch, the ranks, or on what was kept. Without a store a block is computed again
// in every batch that has a sample of it, but for the last few, if there is room for some.
class FrozenCache final : public FrozenValues {
 public:
  static constexpr int64_t kBlock = 16;

  // Both must outlive the object.
  FrozenCache(const Federation& federation, FrozenPart& part);

  // The store of all blocks.
  FrozenStore::Shape shape() const;
  // Keeps them there from now on.
  void keep_in(FrozenStore store) { store_ = std::move(store); }
  // Without a store: this object keeps so many bytes of blocks, those that were used last.
  void keep_some(int64_t bytes) { room_ = bytes; }
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
  void forget_unused();
  void compute(int64_t number, float* out);
  SampleRange samples_of(int64_t number) const;

  const Federation& federation_;
  FrozenPart& part_;
  std::optional<FrozenStore> store_;
  AlignedFloats samples_;  // of a block
  struct Made {
    AlignedFloats values;
    int64_t used;  // the last call that did
  };
  std::unordered_map<int64_t, Made> made_;  // blocks that lie in no store
  int64_t room_ = 0;                        // bytes for those that no call uses
  int64_t calls_ = 0;
  int64_t computed_ = 0;
};

}  // namespace hanse
