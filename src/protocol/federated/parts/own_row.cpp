// The row that a rule weighs beside the updates: its last step, or the server's own update.
#include <vector>

#include "attempt.hpp"
#include "federated/known_round.hpp"
#include "federated/parts/parts.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class OwnRow final : public RoundPart {
 public:
  explicit OwnRow(const PartsOf& of) : is_mine_(of.server != nullptr), last_(of.last_step) {
    if (of.needs.extra_row != ExtraRow::kServer) return;
    last_ = {};
    train_ = &of.parts.root;
    if (is_mine_) trained_.resize(to_index(of.parts.model.layout().n_params()));
  }

  void add_rows(KnownRound& known) override {
    const auto position = static_cast<int64_t>(known.rows++);
    known.seen = known.rows;
    if (!is_mine_) return;
    const RoundContext& round = known.context;
    if (train_) {
      attempt(round.failure, [&] { (*train_)(round.number, round.model, trained_); });
    }
    known.kept.add_row({position, train_ ? std::span<const float>(trained_) : last_});
  }

 private:
  bool is_mine_;                         // rank 0's
  const ServerUpdate* train_ = nullptr;  // null: the last step
  std::span<const float> last_;          // [P]
  std::vector<float> trained_;           // [P]
};

}  // namespace

std::unique_ptr<RoundPart> make_own_row(const PartsOf& of) { return std::make_unique<OwnRow>(of); }

}  // namespace hanse
