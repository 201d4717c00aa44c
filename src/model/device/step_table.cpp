#include "device/step_table.hpp"

#include <algorithm>
#include <cstddef>

#include "device/kernels.hpp"
#include "device/upload.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

constexpr int64_t kWidth = sizeof(StepSize) / sizeof(int64_t);
static_assert(sizeof(StepSize) == 3 * sizeof(int64_t) && offsetof(StepSize, part) == 16 &&
              offsetof(StepSize, scale) == sizeof(float));

constexpr int64_t kChangeWidth = sizeof(ImageChange) / sizeof(int64_t);
static_assert(sizeof(ImageChange) % sizeof(int64_t) == 0);

StepTable::StepTable(int64_t clients, int64_t batch, int64_t noise, const at::Device& device,
                     bool augments) {
  const int64_t places = clients * batch, drawn = noise * clients;
  const int64_t sizes = clients * kWidth, changes = augments ? places * kChangeWidth : 0;
  now_ = at::zeros({places + clients + drawn + sizes + changes},
                   at::TensorOptions(at::kLong).device(device));
  places_ = now_.narrow(0, 0, places);
  counts_ = now_.narrow(0, places, clients);
  drawn_ = now_.narrow(0, places + clients, drawn).view({noise, clients});
  sizes_ = now_.narrow(0, places + clients + drawn, sizes);
  changes_ = now_.narrow(0, places + clients + drawn + sizes, changes);
}

constexpr int64_t kUsualSteps = 32;

bool StepTable::put(const CohortSteps& steps, std::span<const int64_t> drawn) {
  const std::size_t clients = to_index(counts_.numel());
  const std::size_t n = steps.counts.size() / clients;
  const at::Tensor table =
      staged({1 + static_cast<int64_t>(n) * now_.numel()}, at::kLong, now_.device());
  auto* next = table.data_ptr<int64_t>() + 1;
  const auto put_part = [&](auto values, std::size_t step) {
    const std::size_t width = values.size() / n;
    const auto bytes = std::as_bytes(values.subspan(step * width, width));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(next));
    next += (bytes.size() + sizeof(int64_t) - 1) / sizeof(int64_t);
  };
  for (std::size_t step = 0; step < n; ++step) {
    put_part(steps.places, step);
    put_part(steps.counts, step);
    put_part(drawn, step);
    put_part(steps.sizes, step);
    put_part(steps.changes, step);
  }
  const bool moves = !table_.defined() || table_.numel() < table.numel();
  if (moves) {  // makes room for the usual number of steps, so that later uploads rarely move it
    const int64_t most = std::max(kUsualSteps, static_cast<int64_t>(n));
    table_ = at::empty({1 + most * now_.numel()}, now_.options());
  }
  table_.narrow(0, 0, table.numel()).copy_(table, /*non_blocking=*/true);
  counter_ = 0;
  return moves;
}

const StepSize* StepTable::sizes() const {
  return reinterpret_cast<const StepSize*>(sizes_.data_ptr<int64_t>());
}

const ImageChange* StepTable::changes() const {
  if (changes_.numel() == 0) return nullptr;
  return reinterpret_cast<const ImageChange*>(changes_.data_ptr<int64_t>());
}

at::Tensor StepTable::scales() const {
  return sizes_.view(at::kFloat).view({counts_.numel(), 2 * kWidth}).select(1, 1);
}

at::Tensor StepTable::parts() const {
  return sizes_.view({counts_.numel(), kWidth}).select(1, kWidth - 1);
}

void StepTable::choose(int64_t number) {
  number_ = number;
  now_.copy_(table_.narrow(0, 1 + number * now_.numel(), now_.numel()));
}

void StepTable::go_to(int64_t number, int64_t count) {
  if (number != counter_) table_.narrow(0, 0, 1).fill_(number);
  counter_ = number + count;
}

void StepTable::choose_ahead(int64_t steps) {
  const ChooseWork work{.table = table_.data_ptr<int64_t>(),
                        .ahead = steps,
                        .width = now_.numel(),
                        .now = now_.data_ptr<int64_t>()};
  run(work, work.width, now_.device());
}

void StepTable::move_on(int64_t steps) { table_.narrow(0, 0, 1).add_(steps); }

}  // namespace hanse
